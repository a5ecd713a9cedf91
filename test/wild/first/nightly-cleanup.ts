import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const redis = new Redis({
  host: process.env.REDIS_HOST ?? 'localhost',
  port: Number(process.env.REDIS_PORT ?? '6379'),
  commandTimeout: 2000,
  maxRetriesPerRequest: 1,
});
redis.on('error', (error) => console.error('[cleanup] redis', error.message));

const KEY = 'cron:nightly-cleanup';
const TTL_MS = 20_000;

/** Registered with node-cron in every replica. */
export async function nightlyCleanup(cleanup: () => Promise<number>): Promise<void> {
  const startedAt = Date.now();
  try {
    const locked = await redis.set(KEY, randomUUID(), 'PX', TTL_MS, 'NX');
    if (!locked) {
      console.info('[cleanup] another replica is on it');
      return;
    }
    const rows = await cleanup();
    console.info(`[cleanup] ${rows} rows in ${Date.now() - startedAt} ms`);
  } catch (error) {
    console.error('[cleanup] failed', error);
  } finally {
    await redis.del(KEY);
  }
}
