import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { Redis } from 'ioredis';
import { Pool } from 'pg';
import { fetch } from 'undici';
import winston from 'winston';

const logger = winston.createLogger({ transports: [new winston.transports.Console()] });

const TTL_MS = 45_000;
const RENEW_EVERY_MS = 10_000;
const RENEW_RETRY_MS = 2_000;
// Longest database write (3 s for a connection + 5 s for the query) with room to spare.
const SAFETY_MS = 12_000;

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;
const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000 });
const pool = new Pool({ connectionTimeoutMillis: 3_000, query_timeout: 5_000, statement_timeout: 4_500 });

class Lease implements AsyncDisposable {
  readonly #abort = new AbortController();
  #usableUntil: number;
  #timer?: NodeJS.Timeout;
  #closed = false;

  private constructor(private readonly key: string, private readonly token: string, sentAt: number) {
    this.#usableUntil = sentAt + TTL_MS - SAFETY_MS;
    this.#schedule(RENEW_EVERY_MS);
  }

  static async tryAcquire(key: string): Promise<Lease | null> {
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
    return reply === 'OK' ? new Lease(key, token, sentAt) : null;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  assertHeld(): void {
    if (performance.now() >= this.#usableUntil) this.#lose('not renewed in time');
    this.signal.throwIfAborted();
  }

  #schedule(ms: number): void {
    this.#timer = setTimeout(() => void this.#renew(), ms);
  }

  async #renew(): Promise<void> {
    const sentAt = performance.now();
    let next = RENEW_EVERY_MS;
    try {
      const n = await redis.eval(RENEW, 1, this.key, this.token, TTL_MS);
      if (this.#closed) return;
      if (n !== 1) return this.#lose('key is not ours any more');
      this.#usableUntil = sentAt + TTL_MS - SAFETY_MS;
    } catch (err) {
      if (this.#closed) return;
      logger.warn('lease renewal failed', { key: this.key, err });
      next = RENEW_RETRY_MS;
    }
    if (performance.now() >= this.#usableUntil) return this.#lose('not renewed in time');
    this.#schedule(next);
  }

  #lose(reason: string): void {
    clearTimeout(this.#timer);
    this.#closed = true;
    this.#abort.abort(new Error(`lease ${this.key} lost: ${reason}`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await redis.eval(DROP, 1, this.key, this.token).catch((err) => {
      logger.warn('lease drop failed', { key: this.key, err });
    });
  }
}

/** Recomputes pick routes of a warehouse, one zone after the other. The solver may take a minute per zone. */
export async function replanWarehouse(warehouseId: string, zones: string[]): Promise<'done' | 'busy'> {
  await using lease = await Lease.tryAcquire(`replan:${warehouseId}`);
  if (!lease) return 'busy';

  for (const zone of zones) {
    lease.assertHeld();
    const res = await fetch(`${process.env.SOLVER_URL}/solve`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ warehouseId, zone }),
      signal: AbortSignal.any([lease.signal, AbortSignal.timeout(90_000)]),
    });
    if (!res.ok) throw new Error(`solver answered ${res.status} for zone ${zone}`);
    const plan = await res.json();

    lease.assertHeld();
    await pool.query(
      'UPDATE zone_plans SET plan = $3, planned_at = now() WHERE warehouse_id = $1 AND zone = $2',
      [warehouseId, zone, JSON.stringify(plan)],
    );
  }
  return 'done';
}
