import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

/** A job that runs its work under a lock that is right by itself. */
const job = (work: string): string => `
import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import { Redis } from 'ioredis';
import { db } from './db.ts';
import { mailer } from './mailer.ts';
const redis = new Redis(process.env.REDIS_URL!);
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
async function withLock<T>(key: string, ttlMs: number, work: () => Promise<T>): Promise<T | null> {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;
  try {
    return await work();
  } finally {
    await redis.eval(RELEASE, 1, key, token).catch(() => undefined);
  }
}
async function remind(id: string): Promise<void> {
  await mailer.send(id);
  await db('invoices').where({ id }).update({ reminded: true });
}
async function run(): Promise<void> {
  await withLock('reminders', 600_000, async () => {
    const overdue = await db('invoices').where({ reminded: false }).limit(100);
    ${work}
  });
}
cron.schedule('*/10 * * * *', () => run());`;

it('finds work that a job of the file does not await under a lock that is right', async () => {
  expect(await idsOf(job('overdue.forEach(async ({ id }) => { await remind(id); });'))).toEqual(['releases-early']);
  expect(await idsOf(job('for (const { id } of overdue) await remind(id);'))).toEqual([]);
});
