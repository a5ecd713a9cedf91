import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 2,
  commandTimeout: 2_000,
});
redis.on('error', (err) => console.warn('[tariffs] redis:', err.message));

const TTL = 15_000;
const MARGIN = 500; // clock drift + time for a write that has just passed check()

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

/** Call check() right before every write; hand signal to anything that can be cancelled. */
export class Lease implements AsyncDisposable {
  readonly key: string;
  readonly token: string;
  #until: number;
  #closed = false;
  #abort = new AbortController();
  #renewTimer: NodeJS.Timeout | undefined;
  #deadlineTimer: NodeJS.Timeout | undefined;

  constructor(key: string, token: string, until: number) {
    this.key = key;
    this.token = token;
    this.#until = until;
    this.#arm();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  check(): void {
    if (!this.#closed && performance.now() >= this.#until) this.#lose('expired');
    if (this.#closed || this.signal.aborted) throw new Error(`lease on ${this.key} is gone`);
  }

  #arm(): void {
    clearTimeout(this.#deadlineTimer);
    this.#deadlineTimer = setTimeout(() => this.#lose('expired'), Math.max(0, this.#until - performance.now()));
    this.#renewTimer = setTimeout(() => void this.#renew(), TTL / 3);
  }

  #lose(why: string): void {
    clearTimeout(this.#renewTimer);
    clearTimeout(this.#deadlineTimer);
    if (!this.#closed) this.#abort.abort(new Error(`lease on ${this.key}: ${why}`));
  }

  async #renew(): Promise<void> {
    const sent = performance.now();
    let mine: unknown;
    try {
      mine = await redis.eval(EXTEND, 1, this.key, this.token, TTL);
    } catch (err) {
      // network trouble: the old deadline stays in force, we just try once more
      console.warn(`[tariffs] renewal of ${this.key} failed:`, (err as Error).message);
    }
    if (this.#closed || this.signal.aborted) return;
    if (mine === 0) return this.#lose('no longer ours');
    if (performance.now() >= this.#until) return this.#lose('expired');
    if (mine === 1) this.#until = sent + TTL - MARGIN;
    this.#arm();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#renewTimer);
    clearTimeout(this.#deadlineTimer);
    await redis.eval(RELEASE, 1, this.key, this.token).catch((err) => {
      console.warn(`[tariffs] release of ${this.key} failed, it will expire:`, err.message);
    });
  }
}

async function acquire(key: string): Promise<Lease | null> {
  const token = randomUUID();
  const sent = performance.now();
  let reply: 'OK' | null = null;
  try {
    reply = await redis.set(key, token, 'PX', TTL, 'NX');
  } catch (err) {
    void redis.eval(RELEASE, 1, key, token).catch(() => {}); // may have been set all the same
    throw err;
  }
  if (reply !== 'OK') return null;
  return new Lease(key, token, sent + TTL - MARGIN);
}

export interface TariffApi {
  list(region: string, signal: AbortSignal): Promise<{ id: string; cents: number }[]>;
  put(id: string, cents: number, signal: AbortSignal): Promise<void>;
}

export async function publishTariffs(region: string, api: TariffApi): Promise<'busy' | number> {
  const lease = await acquire(`tariffs:publish:${region}`);
  if (!lease) return 'busy';
  await using held = lease;
  const rows = await api.list(region, held.signal);
  for (const row of rows) {
    held.check();
    await api.put(row.id, row.cents, held.signal);
  }
  return rows.length;
}
