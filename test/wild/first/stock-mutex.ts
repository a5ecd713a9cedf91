import { randomBytes } from 'node:crypto';
import { Redis, type RedisOptions } from 'ioredis';

const options: RedisOptions = {
  host: process.env.REDIS_HOST ?? '127.0.0.1',
  port: Number(process.env.REDIS_PORT ?? 6379),
  connectTimeout: 2000,
  commandTimeout: 1000,
  maxRetriesPerRequest: 1,
};

let shared: Redis | undefined;

function client(): Redis {
  if (!shared) {
    shared = new Redis(options);
    shared.on('error', (err) => console.warn('[stock-mutex] redis:', err.message));
  }
  return shared;
}

/**
 * Mutex for stock movements. Our managed Redis does not allow scripting, hence WATCH for the release.
 */
export class StockMutex {
  #owner: string | undefined;
  #expiresAt = 0;
  readonly #key: string;
  readonly #ttlMs: number;

  constructor(sku: string, ttlMs = 15_000) {
    this.#key = `stock:mutex:${sku}`;
    this.#ttlMs = ttlMs;
  }

  /** Monotonic; leaves a reserve for clocks that do not agree. */
  get isHeld(): boolean {
    return this.#owner !== undefined && performance.now() < this.#expiresAt;
  }

  async tryLock(): Promise<boolean> {
    if (this.isHeld) return false;
    const owner = randomBytes(16).toString('hex');
    const sentAt = performance.now();
    let reply: 'OK' | null;
    try {
      reply = await client().set(this.#key, owner, 'PX', this.#ttlMs, 'NX');
    } catch (err) {
      // It may have been set all the same.
      await this.#deleteIf(owner).catch(() => {});
      throw err;
    }
    if (reply !== 'OK') return false;
    this.#owner = owner;
    this.#expiresAt = sentAt + this.#ttlMs * 0.98 - 5;
    if (this.isHeld) return true;
    await this.unlock();
    return false;
  }

  async unlock(): Promise<void> {
    const owner = this.#owner;
    if (owner === undefined) return;
    this.#owner = undefined;
    this.#expiresAt = 0;
    await this.#deleteIf(owner);
  }

  async #deleteIf(owner: string): Promise<void> {
    // A connection of its own, which must not be re-established behind our back: the WATCH would be gone.
    const connection = client().duplicate({ retryStrategy: () => null });
    connection.on('error', () => {});
    try {
      await connection.watch(this.#key);
      if ((await connection.get(this.#key)) === owner) await connection.multi().del(this.#key).exec();
    } finally {
      connection.disconnect();
    }
  }
}
