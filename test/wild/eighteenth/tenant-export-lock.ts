import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`;

export class ExportLock {
  readonly #client: RedisClient;
  readonly #key: string;
  readonly #token: string;
  readonly #ttlMs: number;
  readonly #lost = new AbortController();
  #validUntil: number;
  #closed = false;
  #renewTimer: NodeJS.Timeout | undefined;
  #expiryTimer: NodeJS.Timeout | undefined;

  private constructor(client: RedisClient, key: string, token: string, ttlMs: number, validUntil: number) {
    this.#client = client;
    this.#key = key;
    this.#token = token;
    this.#ttlMs = ttlMs;
    this.#validUntil = validUntil;
    this.#arm();
  }

  /** null when somebody else is exporting this tenant. */
  static async tryAcquire(client: RedisClient, tenantId: string, ttlMs = 30_000): Promise<ExportLock | null> {
    const key = `export-lock:${tenantId}`;
    const token = randomUUID();
    const sentAt = performance.now();
    let reply: unknown;
    try {
      reply = await client.set(key, token, { NX: true, PX: ttlMs });
    } catch (err) {
      // May have been applied although the answer was lost.
      await client.eval(RELEASE, { keys: [key], arguments: [token] }).catch(() => undefined);
      throw err;
    }
    if (reply !== 'OK') return null;
    const lock = new ExportLock(client, key, token, ttlMs, sentAt + ttlMs * 0.95);
    if (lock.held) return lock;
    await lock[Symbol.asyncDispose]();
    return null;
  }

  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  get held(): boolean {
    return !this.#closed && !this.#lost.signal.aborted && performance.now() < this.#validUntil;
  }

  assertHeld(): void {
    if (!this.held) throw new Error(`${this.#key} is not held any more`);
  }

  #arm(): void {
    clearTimeout(this.#expiryTimer);
    this.#expiryTimer = setTimeout(() => this.#lose('lapsed'), Math.max(0, this.#validUntil - performance.now()));
    this.#renewTimer = setTimeout(() => void this.#renew(), this.#ttlMs / 3);
  }

  #lose(why: string): void {
    clearTimeout(this.#renewTimer);
    clearTimeout(this.#expiryTimer);
    this.#lost.abort(new Error(`${this.#key}: ${why}`));
  }

  async #renew(): Promise<void> {
    const sentAt = performance.now();
    let extended: unknown;
    try {
      extended = await this.#client.eval(EXTEND, { keys: [this.#key], arguments: [this.#token, String(this.#ttlMs)] });
    } catch {
      // Try again soon; the expiry timer keeps running in the meantime.
      if (this.held) this.#renewTimer = setTimeout(() => void this.#renew(), 1_000);
      return;
    }
    if (this.#closed || this.#lost.signal.aborted) return;
    if (extended !== 1) return this.#lose('taken over');
    this.#validUntil = sentAt + this.#ttlMs * 0.95;
    this.#arm();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#renewTimer);
    clearTimeout(this.#expiryTimer);
    await this.#client
      .eval(RELEASE, { keys: [this.#key], arguments: [this.#token] })
      .catch((err: unknown) => console.warn('release of %s failed, left to its TTL', this.#key, err));
  }
}

export type WritePage = (page: number, signal: AbortSignal) => Promise<boolean>;

export async function exportTenant(client: RedisClient, tenantId: string, writePage: WritePage): Promise<'done' | 'busy'> {
  await using lock = await ExportLock.tryAcquire(client, tenantId);
  if (lock === null) return 'busy';
  for (let page = 0, more = true; more; page++) {
    lock.assertHeld();
    more = await writePage(page, lock.signal);
  }
  lock.assertHeld();
  return 'done';
}
