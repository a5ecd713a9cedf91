import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const TTL = 10_000;

const FREE_WRITER = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const writerKey = (list: string) => `prices:${list}:writer`;
const readersKey = (list: string) => `prices:${list}:readers`;

async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + 8_000;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`gave up waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 50));
  }
}

/** Many may read a price list at once. */
export async function readPrices<T>(list: string, read: () => Promise<T>): Promise<T> {
  const id = randomUUID();
  await until(async () => (await redis.exists(writerKey(list))) === 0, `the writer of ${list}`);
  await redis.multi().hset(readersKey(list), id, '1').pexpire(readersKey(list), TTL).exec();
  try {
    return await read();
  } finally {
    await redis.hdel(readersKey(list), id);
  }
}

/** Only one may write it, and nobody reads meanwhile. */
export async function writePrices<T>(list: string, write: () => Promise<T>): Promise<T> {
  const id = randomUUID();
  await until(async () => {
    if ((await redis.hlen(readersKey(list))) > 0) return false;
    return (await redis.set(writerKey(list), id, 'PX', TTL, 'NX')) === 'OK';
  }, `the readers of ${list}`);
  try {
    return await write();
  } finally {
    await redis.eval(FREE_WRITER, 1, writerKey(list), id);
  }
}
