import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * A cart is one JSON document per session. Changes read, modify and write it
 * under the session's lock. Operations call each other (checkout applies the
 * pending promotion first), so a hold may be entered again.
 */
const TTL_MS = 10_000;
const BUDGET_MS = 7_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface Cart {
  lines: { sku: string; quantity: number }[];
  promo?: string;
  discountCents: number;
  checkedOut: boolean;
}
export interface CartStore {
  load(sessionId: string, opts: { signal: AbortSignal }): Promise<Cart>;
  save(sessionId: string, cart: Cart, opts: { signal: AbortSignal }): Promise<void>;
}
export interface Promotions {
  discount(cart: Cart, promo: string, opts: { signal: AbortSignal }): Promise<number>;
}

interface Hold {
  key: string;
  token: string;
  depth: number;
  signal: AbortSignal;
}

export class SessionBusyError extends Error {}

export class SessionLocks {
  private readonly holds = new Map<string, Hold>();

  constructor(private readonly redis: Redis) {}

  async run<T>(sessionId: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `lock:cart:${sessionId}`;
    const hold = this.enter(key) ?? (await this.acquire(key));
    try {
      hold.signal.throwIfAborted();
      return await fn(hold.signal);
    } finally {
      await this.leave(hold);
    }
  }

  /** We have the lock already: go one level deeper. */
  private enter(key: string): Hold | undefined {
    const hold = this.holds.get(key);
    if (hold) hold.depth++;
    return hold;
  }

  private async acquire(key: string): Promise<Hold> {
    const token = randomUUID();
    const startedAt = Date.now();
    const reply = await this.redis.set(key, token, 'PX', TTL_MS, 'NX');
    if (reply !== 'OK') throw new SessionBusyError('the cart is being changed, try again');

    const left = Math.max(0, startedAt + BUDGET_MS - Date.now());
    const hold: Hold = { key, token, depth: 1, signal: AbortSignal.timeout(left) };
    this.holds.set(key, hold);
    return hold;
  }

  private async leave(hold: Hold): Promise<void> {
    hold.depth--;
    if (hold.depth > 0) return;
    if (this.holds.get(hold.key) === hold) this.holds.delete(hold.key);
    await this.redis.eval(RELEASE, 1, hold.key, hold.token).catch((err: Error) => {
      console.warn(`${hold.key} left to its TTL: ${err.message}`);
    });
  }
}

export class Carts {
  constructor(
    private readonly locks: SessionLocks,
    private readonly store: CartStore,
    private readonly promotions: Promotions,
  ) {}

  add(sessionId: string, sku: string, quantity: number): Promise<void> {
    return this.locks.run(sessionId, async (signal) => {
      const cart = await this.store.load(sessionId, { signal });
      await this.store.save(sessionId, { ...cart, lines: [...cart.lines, { sku, quantity }] }, { signal });
    });
  }

  applyPromo(sessionId: string): Promise<void> {
    return this.locks.run(sessionId, async (signal) => {
      const cart = await this.store.load(sessionId, { signal });
      if (!cart.promo) return;
      const discountCents = await this.promotions.discount(cart, cart.promo, { signal });
      await this.store.save(sessionId, { ...cart, discountCents }, { signal });
    });
  }

  checkout(sessionId: string): Promise<void> {
    return this.locks.run(sessionId, async (signal) => {
      await this.applyPromo(sessionId);
      const cart = await this.store.load(sessionId, { signal });
      await this.store.save(sessionId, { ...cart, checkedOut: true }, { signal });
    });
  }
}
