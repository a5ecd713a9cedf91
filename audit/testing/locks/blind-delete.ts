import { Redis } from 'ioredis';

const redis = new Redis({ host: 'localhost', port: 6379 });

export async function acquireLock(key: string, ttlMs: number): Promise<boolean> {
  const result = await redis.set(key, '1', 'PX', ttlMs, 'NX');
  return result === 'OK';
}

export async function releaseLock(key: string): Promise<void> {
  await redis.del(key);
}
