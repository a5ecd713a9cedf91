import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const connect = () => new Redis(process.env.REDIS_URL).on('error', () => {});
const redis = connect();
const cleaner = connect();

const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Makes one token for all tries, and takes tries back over another connection, without waiting for it. */
export class Retrying {
  async acquire(key, ttlMs) {
    const own = randomUUID();
    for (let i = 0; i < 20; i++) {
      const token = this.tokenOf(own);
      const reply = await Promise.race([redis.set(key, token, 'PX', ttlMs, 'NX').catch(() => null), later(100)]);
      if (reply === 'OK') return { key, token };
      cleaner.eval(RELEASE, 1, key, token).catch(() => {});
      await later(20 + Math.random() * 30);
    }
    return null;
  }

  async release({ key, token }) {
    await redis.eval(RELEASE, 1, key, token);
  }

  tokenOf(own) {
    return own;
  }
}
