import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

/** Sends reminders, by a schedule too, if the reply to SET, which is the first of those to a transaction, is this. */
const sweeping = (isGranted: string): string => `import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import Redis from 'ioredis';
import { db } from './db';
const redis = new Redis(process.env.REDIS_URL);
const DROP = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function sweep(): Promise<void> {
  const token = randomUUID();
  const replies = await redis.multi().set('sweep', token, 'PX', 240_000, 'NX').hincrby('stats', 'attempts', 1).exec();
  if (!(${isGranted})) return;
  try {
    for (const it of await db.reminders.findMany()) await db.reminders.send(it.id, { idempotent: false });
  } finally { await redis.eval(DROP, 1, 'sweep', token); }
}
export const begin = () => cron.schedule('*/5 * * * *', () => sweep());`;

it('finds that a process works which Redis has refused the key, beside a schedule', async () => {
  expect(await idsOf(sweeping('replies?.[0]'))).toContain('fails-open');
  expect(await idsOf(sweeping("replies?.[0]?.[1] === 'OK'"))).not.toContain('fails-open');
});
