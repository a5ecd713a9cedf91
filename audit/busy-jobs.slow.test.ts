import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

/** A job of a queue under a lock that is not waited for. */
const job = (data: string, busy: string): string => `
import { randomUUID } from 'node:crypto';
import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
const redis = new Redis(process.env.REDIS_URL!);
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export const worker = new Worker('shops', async (job) => {
  const { shopId${data} } = job.data;
  const key = 'shop:' + shopId, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') ${busy}
  try {
    await db.query('UPDATE shops SET prices = $1 WHERE id = $2', [1, shopId]);
    return { applied: 1 };
  } finally { await redis.eval(UNLOCK, 1, key, token); }
});`;

it('finds a job that is taken for done where its lock is busy, and brings what no other one does', async () => {
  expect(await idsOf(job(', changes', 'return { skipped: true };'))).toEqual(['drops-busy']);
});

it('finds nothing where it is tried again, or the holder does the same work', async () => {
  expect(await idsOf(job(', changes', "throw new Error('busy');"))).toEqual([]);
  expect(await idsOf(job('', 'return { skipped: true };'))).toEqual([]);
});
