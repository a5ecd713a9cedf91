import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

export type Client = ReturnType<typeof createClient>;

const RELEASE = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;

/** Give it to `await using`; the end of the block gives the lock back. */
export class ScopedLock implements AsyncDisposable {
  readonly key: string;
  readonly #client: Client;
  readonly #token: string;
  readonly #until: number;

  private constructor(client: Client, key: string, token: string, until: number) {
    this.#client = client;
    this.key = key;
    this.#token = token;
    this.#until = until;
  }

  static async tryAcquire(client: Client, key: string, ttlMs: number): Promise<ScopedLock | null> {
    const token = randomUUID();
    const askedAt = performance.now();
    const reply = await client.set(key, token, { NX: true, PX: ttlMs });
    // a fifth of the ttl stays unused as a safety distance
    return reply === 'OK' ? new ScopedLock(client, key, token, askedAt + ttlMs * 0.8) : null;
  }

  /** Whole milliseconds for which the lock can still be relied upon. */
  get remaining(): number {
    return Math.max(0, Math.floor(this.#until - performance.now()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.eval(RELEASE, { keys: [this.key], arguments: [this.#token] }).catch(() => {});
  }
}

export class Locked extends Error {}

export async function withScopedLock<T>(
  client: Client,
  key: string,
  ttlMs: number,
  fn: (lock: ScopedLock) => Promise<T>,
): Promise<T> {
  await using lock = await ScopedLock.tryAcquire(client, key, ttlMs);
  if (!lock) throw new Locked(key);
  return fn(lock);
}

// -- used by the warehouse api ------------------------------------------------

export interface Stock {
  onHand(sku: string, site: string, signal: AbortSignal): Promise<number>;
  /** Sets both sides in one transaction, bounded by the signal and a server-side limit. */
  move(sku: string, from: [string, number], to: [string, number], signal: AbortSignal): Promise<void>;
}

export const transfer = (client: Client, stock: Stock, sku: string, from: string, to: string, qty: number) =>
  withScopedLock(client, `stock:${sku}`, 20_000, async (lock) => {
    const signal = AbortSignal.timeout(Math.min(8_000, lock.remaining));
    const [source, target] = await Promise.all([
      stock.onHand(sku, from, signal),
      stock.onHand(sku, to, signal),
    ]);
    if (source < qty) throw new RangeError(`only ${source} of ${sku} at ${from}`);
    if (lock.remaining < 2_000) throw new Error('ran out of time');
    await stock.move(sku, [from, source - qty], [to, target + qty], signal);
  });
