import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class OrderLocked extends Error {}
export class OrderLeaseOver extends Error {}

class Hold {
  depth = 1;

  constructor(
    readonly key: string,
    readonly token: string,
    private readonly endsAt: number,
  ) {}

  /** To be called ahead of every write, with the time that write may take at most. */
  ensure(needMs: number): void {
    if (this.depth === 0 || performance.now() + needMs > this.endsAt) throw new OrderLeaseOver(this.key);
  }
}

/**
 * Order services call each other (cancel -> refund -> restock), each of them takes the order's
 * lock. Within one async call chain only the outermost one goes to redis.
 */
export class OrderLocks {
  private readonly chain = new AsyncLocalStorage<ReadonlyMap<string, Hold>>();

  constructor(
    private readonly redis: Redis,
    private readonly ttlMs = 20_000,
    private readonly slackMs = 1_500,
  ) {}

  async with<T>(orderId: string, fn: (hold: Hold) => Promise<T>): Promise<T> {
    const key = `order:${orderId}:lock`;
    const outer = this.chain.getStore();
    const current = outer?.get(key);

    // depth 0: the chain outlived its lock (something wasn't awaited) and has to queue like everyone
    if (current && current.depth > 0) {
      current.ensure(0);
      current.depth++;
      try {
        return await fn(current);
      } finally {
        await this.leave(current);
      }
    }

    const hold = await this.enter(key);
    const inner = new Map(outer ?? []);
    inner.set(key, hold);
    return this.chain.run(inner, async () => {
      try {
        return await fn(hold);
      } finally {
        await this.leave(hold);
      }
    });
  }

  private async enter(key: string): Promise<Hold> {
    const token = randomUUID();
    const asked = performance.now();
    let reply: string | null;
    try {
      reply = await this.redis.set(key, token, 'PX', this.ttlMs, 'NX');
    } catch (err) {
      void this.unlock(key, token);
      throw err;
    }
    if (reply !== 'OK') throw new OrderLocked(key);
    return new Hold(key, token, asked + this.ttlMs - this.slackMs);
  }

  private async leave(hold: Hold): Promise<void> {
    hold.depth--;
    if (hold.depth === 0) await this.unlock(hold.key, hold.token);
  }

  private async unlock(key: string, token: string): Promise<void> {
    try {
      await this.redis.eval(UNLOCK, 1, key, token);
    } catch (err) {
      console.warn(`unlock ${key}: ${(err as Error).message}`);
    }
  }
}

export interface Orders {
  setState(id: string, state: string, o: { timeoutMs: number }): Promise<void>;
  addRefund(id: string, cents: number, o: { timeoutMs: number }): Promise<void>;
}

const STEP = { timeoutMs: 2_000 };

export function orderService(locks: OrderLocks, orders: Orders) {
  const refund = (id: string, cents: number) =>
    locks.with(id, async (hold) => {
      hold.ensure(STEP.timeoutMs);
      await orders.addRefund(id, cents, STEP);
    });
  const cancel = (id: string, cents: number) =>
    locks.with(id, async (hold) => {
      hold.ensure(STEP.timeoutMs);
      await orders.setState(id, 'cancelled', STEP);
      await refund(id, cents);
    });
  return { refund, cancel };
}
