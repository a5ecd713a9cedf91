import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const EPOCH = 1_700_000_000_000n;
const WORKERS = 1024;
const LEASE_MS = 60_000;

const EXTEND = `
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`;

/** 41 bits of time, 10 bits of worker, 12 bits of sequence. The worker number is leased from Redis. */
export class SnowflakeIds {
  #redis: Redis;
  #token: string;
  #worker: number;
  #goodUntil: number;
  #beat: NodeJS.Timeout;
  #lastMs = 0n;
  #seq = 0n;

  private constructor(redis: Redis, token: string, worker: number, goodUntil: number) {
    this.#redis = redis;
    this.#token = token;
    this.#worker = worker;
    this.#goodUntil = goodUntil;
    this.#beat = setInterval(() => {
      this.#renew().catch((err) => console.warn('[ids] heartbeat failed', err));
    }, LEASE_MS / 4);
    this.#beat.unref();
  }

  static async start(redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1')): Promise<SnowflakeIds> {
    const token = randomUUID();
    const first = Math.floor(Math.random() * WORKERS);
    for (let i = 0; i < WORKERS; i++) {
      const worker = (first + i) % WORKERS;
      const asked = performance.now();
      const got = await redis.set(SnowflakeIds.#key(worker), token, 'PX', LEASE_MS, 'NX');
      if (got === 'OK') return new SnowflakeIds(redis, token, worker, asked + LEASE_MS - 5_000);
    }
    throw new Error('[ids] all worker numbers are taken');
  }

  static #key(worker: number): string {
    return `snowflake:worker:${worker}`;
  }

  async #renew(): Promise<void> {
    const asked = performance.now();
    const key = SnowflakeIds.#key(this.#worker);
    const mine = await this.#redis.eval(EXTEND, 1, key, this.#token, LEASE_MS);
    if (mine !== 1) {
      // Our entry went missing (Redis restarted without its dump, or we were late): register again.
      console.warn(`[ids] registering worker ${this.#worker} again`);
      await this.#redis.set(key, this.#token, 'PX', LEASE_MS);
    }
    this.#goodUntil = asked + LEASE_MS - 5_000;
  }

  next(): bigint {
    // No ids on a lease that we could not renew in time.
    if (performance.now() > this.#goodUntil) throw new Error('[ids] lease is out of date');

    let now = BigInt(Date.now());
    if (now < this.#lastMs) now = this.#lastMs; // clock stepped back: stay on the last millisecond
    if (now === this.#lastMs) {
      this.#seq = (this.#seq + 1n) & 0xfffn;
      if (this.#seq === 0n) now += 1n; // borrowed from the next millisecond
    } else {
      this.#seq = 0n;
    }
    this.#lastMs = now;
    return ((now - EPOCH) << 22n) | (BigInt(this.#worker) << 12n) | this.#seq;
  }

  /** The entry is left to expire: the next user of the number may have a clock behind ours. */
  stop(): void {
    clearInterval(this.#beat);
    this.#goodUntil = 0;
  }
}
