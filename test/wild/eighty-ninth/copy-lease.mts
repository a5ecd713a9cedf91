/**
 * Leases on physical copies of books.
 *
 * Returning a copy and placing a hold both decide who gets the copy next. Whoever
 * decides holds the lease of the copy:
 *
 *   await using lease = await CopyLease.acquire(redis, copyId);
 */
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import pg from 'pg';

const IF_MINE = (command: string) =>
  `if redis.call('get', KEYS[1]) == ARGV[1] then return ${command} end return 0`;
const RELEASE = IF_MINE(`redis.call('del', KEYS[1])`);
const RENEW = IF_MINE(`redis.call('pexpire', KEYS[1], ARGV[2])`);

export class CopyBusyError extends Error {
  override name = 'CopyBusyError';
}

export class LeaseLostError extends Error {
  override name = 'LeaseLostError';
}

export class CopyLease implements AsyncDisposable {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #token: string;
  readonly #ttlMs: number;
  readonly #timer: NodeJS.Timeout;
  #validUntil: number;

  private constructor(redis: Redis, key: string, token: string, ttlMs: number, askedAt: number) {
    this.#redis = redis;
    this.#key = key;
    this.#token = token;
    this.#ttlMs = ttlMs;
    this.#validUntil = askedAt + ttlMs * 0.98;
    this.#timer = setInterval(() => void this.#renew(), ttlMs / 4);
  }

  /** @throws {CopyBusyError} when another desk is deciding about the copy */
  static async acquire(redis: Redis, copyId: string, ttlMs = 20_000): Promise<CopyLease> {
    const key = `library:copy:${copyId}:lease`;
    const token = randomUUID();
    const askedAt = performance.now();
    const reply = await redis.set(key, token, 'PX', ttlMs, 'NX');
    if (reply !== 'OK') throw new CopyBusyError(`copy ${copyId} is being handled elsewhere`);
    return new CopyLease(redis, key, token, ttlMs, askedAt);
  }

  /**
   * To be called before each step that changes something.
   * @param needMs the longest time the step can take
   * @throws {LeaseLostError} when the lease is gone or would not last that long
   */
  ensure(needMs: number): void {
    if (this.#validUntil - performance.now() < needMs) throw new LeaseLostError(this.#key);
  }

  async #renew(): Promise<void> {
    const askedAt = performance.now();
    try {
      const kept = await this.#redis.eval(RENEW, 1, this.#key, this.#token, this.#ttlMs);
      if (kept === 1) {
        this.#validUntil = askedAt + this.#ttlMs * 0.98;
      } else {
        clearInterval(this.#timer);
        this.#validUntil = 0;
      }
    } catch (err) {
      console.warn(`renewal of ${this.#key} failed`, err); // validUntil stays as it was
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    try {
      await this.#redis.eval(RELEASE, 1, this.#key, this.#token);
    } catch (err) {
      console.warn(`${this.#key} not released, it will expire`, err);
    }
  }
}

/** Waiting for a connection (2 s) and the statement itself (3 s), with some slack. */
const STATEMENT_BUDGET_MS = 8_000;

export const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 3_000,
  query_timeout: 5_000,
});

/**
 * Gives a returned copy to the reader who has waited longest.
 * @returns the card number of that reader, or null if nobody waits
 */
export async function promoteNextHold(redis: Redis, copyId: string): Promise<string | null> {
  await using lease = await CopyLease.acquire(redis, copyId);

  const next = await pool.query<{ id: string; card_no: string }>(
    `SELECT h.id, h.card_no FROM holds h JOIN copies c ON c.title_id = h.title_id
      WHERE c.id = $1 AND c.reserved_for IS NULL AND h.state = 'waiting'
      ORDER BY h.placed_at LIMIT 1`,
    [copyId],
  );
  const hold = next.rows[0];
  if (!hold) return null;

  lease.ensure(STATEMENT_BUDGET_MS);
  await pool.query(
    `WITH ready AS (UPDATE holds SET state = 'ready', copy_id = $1 WHERE id = $2 RETURNING card_no)
     UPDATE copies SET reserved_for = ready.card_no FROM ready WHERE copies.id = $1`,
    [copyId, hold.id],
  );
  return hold.card_no;
}
