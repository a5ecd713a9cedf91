import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
redis.on('error', () => {});
await redis.connect();

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

export async function withLock<T>(key: string, fn: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  const ok = await redis.set(`lock:${key}`, token, { NX: true, PX: 10_000 });
  if (ok !== 'OK') throw new Error(`${key} is locked`);
  try {
    return await fn();
  } finally {
    await redis.eval(RELEASE, { keys: [`lock:${key}`], arguments: [token] });
  }
}
