import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const redis = new Redis(process.env.REDIS_URL);
redis.on('error', () => {});

/** The work is handed what releases, and is not waited for. */
export async function whenFree(name, timeoutMs, work) {
  const token = randomUUID();
  for (let i = 0; i < 30; i++) {
    if ((await redis.set(name, token, 'PX', timeoutMs, 'NX')) === 'OK') {
      work(() => redis.eval(RELEASE, 1, name, token));
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${name} is locked`);
}
