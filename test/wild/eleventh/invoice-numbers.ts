import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const LOCK_TTL_MS = 10_000;
const WAIT_MS = 5_000;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

// The new number is only stored while the lock is still ours.
const STORE_IF_LOCKED = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2])
return 1`;

const sleep = (ms: number) => new Promise<void>((r) => setTimeout(r, ms));

export class InvoiceNumbers {
  constructor(private readonly redis: Redis) {}

  /** Next number of a series, e.g. "AT-2025-000183". Starts again at 1 every year. */
  async next(series: string, year = new Date().getFullYear()): Promise<string> {
    const lockKey = `{invoice:${series}}:lock`;
    const lastKey = `{invoice:${series}}:last`;
    const token = await this.lock(lockKey);

    try {
      const last = await this.redis.get(lastKey);
      const number = this.following(series, year, last);

      const stored = await this.redis.eval(STORE_IF_LOCKED, 2, lockKey, lastKey, token, number);
      if (stored !== 1) {
        throw new Error(`lost the lock on series ${series}, number not issued`);
      }
      return number;
    } finally {
      await this.redis.eval(UNLOCK, 1, lockKey, token).catch((err) => {
        console.warn(`could not unlock ${lockKey}, it lapses by itself`, err);
      });
    }
  }

  private async lock(key: string): Promise<string> {
    const token = randomUUID();
    const giveUpAt = performance.now() + WAIT_MS;
    for (;;) {
      if ((await this.redis.setnx(key, token)) === 1) {
        await this.redis.pexpire(key, LOCK_TTL_MS);
        return token;
      }
      if (performance.now() > giveUpAt) throw new Error(`${key} is busy`);
      await sleep(40 + Math.random() * 60);
    }
  }

  private following(series: string, year: number, last: string | null): string {
    const m = last?.match(/-(\d{4})-(\d{6})$/);
    const n = m && Number(m[1]) === year ? Number(m[2]) + 1 : 1;
    return `${series}-${year}-${String(n).padStart(6, '0')}`;
  }
}
