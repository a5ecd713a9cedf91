// src/locks/waiting-lock.ts
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { redis as shared } from '../redis'; // the application's connection, `new Redis(config.redisUrl)`

// Frees the lock and leaves one wake-up for one of the waiters.
const RELEASE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('del', KEYS[1])
redis.call('del', KEYS[2])
redis.call('rpush', KEYS[2], '1')
redis.call('pexpire', KEYS[2], ARGV[2])
return 1`;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

/**
 * Lock without polling: waiters sleep inside Redis with BLPOP instead of hammering SET NX.
 * The lease is renewed while the work runs.
 */
export class WaitingLock {
  constructor(
    private readonly name: string,
    private readonly ttlMs = 10_000,
    private readonly redis: Redis = shared,
  ) {}

  private get key(): string {
    return `{wait:${this.name}}:lock`;
  }

  private get wakeKey(): string {
    return `{wait:${this.name}}:wake`;
  }

  private async acquire(): Promise<string> {
    const token = randomUUID();
    for (;;) {
      const reply = await this.redis.set(this.key, token, 'PX', this.ttlMs, 'NX');
      if (reply === 'OK') return token;
      // woken by the release, or at the latest when the lease of a crashed holder has ended
      await this.redis.blpop(this.wakeKey, Math.ceil(this.ttlMs / 1000));
    }
  }

  private async release(token: string): Promise<void> {
    await this.redis.eval(RELEASE, 2, this.key, this.wakeKey, token, this.ttlMs);
  }

  async run<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const token = await this.acquire();
    const lost = new AbortController();
    let running = true;

    const timer = setInterval(async () => {
      try {
        const ok = await this.redis.eval(RENEW, 1, this.key, token, this.ttlMs);
        if (ok !== 1 && running) lost.abort(new Error(`lost lock ${this.name}`));
      } catch (err) {
        if (running) lost.abort(err);
      }
    }, this.ttlMs / 3);

    try {
      const result = await work(lost.signal);
      lost.signal.throwIfAborted();
      return result;
    } finally {
      running = false;
      clearInterval(timer);
      await this.release(token).catch((err) => console.warn('waiting lock: release failed', err));
    }
  }
}

// e.g. in the invoice service: numbers must be consecutive
export const invoiceNumbers = new WaitingLock('invoice-numbers');
