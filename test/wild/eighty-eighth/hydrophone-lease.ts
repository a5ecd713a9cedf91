import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { maxRetriesPerRequest: 2, commandTimeout: 3_000 });
redis.on('error', (err) => console.error('redis', err.message));

export interface LeaseOptions {
  ttlMs?: number;
  beatMs?: number;
}

export class LeaseLost extends Error {
  override name = 'LeaseLost';
}

export class HydrophoneLease implements AsyncDisposable {
  readonly #key: string;
  readonly #token: string;
  readonly #ttlMs: number;
  readonly #abort = new AbortController();
  readonly #beat: NodeJS.Timeout;
  #validUntil: number;

  private constructor(key: string, token: string, sentAt: number, ttlMs: number, beatMs: number) {
    this.#key = key;
    this.#token = token;
    this.#ttlMs = ttlMs;
    this.#validUntil = sentAt + ttlMs;
    this.#beat = setInterval(() => void this.#extend(), beatMs);
  }

  static async take(array: string, { ttlMs = 10_000, beatMs = ttlMs / 4 }: LeaseOptions = {}): Promise<HydrophoneLease | null> {
    const key = `hydrophone:${array}:tuner`;
    const token = randomUUID();
    const sentAt = performance.now();
    const ok = await redis.set(key, token, 'PX', ttlMs, 'NX');
    return ok === 'OK' ? new HydrophoneLease(key, token, sentAt, ttlMs, beatMs) : null;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  async #extend(): Promise<void> {
    const sentAt = performance.now();
    try {
      const ok = await redis.set(this.#key, this.#token, 'PX', this.#ttlMs, 'XX');
      if (ok === 'OK') this.#validUntil = sentAt + this.#ttlMs;
      else this.#lose();
    } catch {
      if (performance.now() > this.#validUntil - this.#ttlMs / 4) this.#lose();
    }
  }

  #lose(): void {
    clearInterval(this.#beat);
    this.#abort.abort(new LeaseLost(this.#key));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#beat);
    await redis
      .eval(RELEASE, 1, this.#key, this.#token)
      .catch((err: Error) => console.warn(`${this.#key} expires by itself: ${err.message}`));
  }
}

export async function tune(array: string, sweep: AsyncIterable<number>, apply: (hz: number, signal: AbortSignal) => Promise<void>) {
  await using lease = await HydrophoneLease.take(array);
  if (!lease) return false;
  for await (const hz of sweep) {
    lease.signal.throwIfAborted();
    await apply(hz, lease.signal);
  }
  return true;
}

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
