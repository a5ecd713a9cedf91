import { hostname } from 'node:os';
import cron from 'node-cron';
import { createClient } from 'redis';
import { db } from '../db';
import { logger } from '../logger';
import { renderDigest, mailer } from './mail';

const HOUR = 60 * 60 * 1000;
const DAY = 24 * HOUR;

const client = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  socket: { connectTimeout: 5_000 },
});
client.on('error', (err) => logger.warn({ err }, 'redis'));
await client.connect();

/**
 * All pods fire at the same minute. The first to write the key of this slot
 * runs it, the others go back to sleep. The key is not removed afterwards: a
 * pod with a slow clock must still find it. A slot that dies half way is not
 * taken up again, the next hour picks up what was left.
 */
async function claimSlot(job: string, every: number): Promise<Date | null> {
  // round, not floor: clocks differ a bit and timers may fire a few ms early
  const slot = Math.round(Date.now() / every) * every;
  const key = `cron:${job}:${new Date(slot).toISOString()}`;
  const reply = await client.set(key, hostname(), { NX: true, PX: every * 3 });
  if (reply !== 'OK') return null;
  if (Date.now() - slot > every / 2) {
    logger.warn({ key }, 'answer came too late, leaving this one out');
    return null;
  }
  return new Date(slot);
}

async function sendDigests(slot: Date) {
  const due = await db.query(
    `select id, email from users
      where digest_enabled and last_digest_at <= $1
      order by id`,
    [new Date(slot.getTime() - DAY)],
  );

  let sent = 0;
  for (const user of due.rows) {
    // A long run can reach into the next hour, so every user is claimed on its own.
    // Better no mail today than two.
    const mine = await db.query(
      `update users set last_digest_at = $2
        where id = $1 and last_digest_at <= $3
        returning id`,
      [user.id, slot, new Date(slot.getTime() - DAY)],
    );
    if (mine.rowCount === 0) continue;

    try {
      await mailer.send(user.email, await renderDigest(user.id, slot));
      sent++;
    } catch (err) {
      logger.error({ err, user: user.id }, 'digest not sent');
    }
  }
  return sent;
}

cron.schedule(
  '0 * * * *',
  async () => {
    try {
      const slot = await claimSlot('digest', HOUR);
      if (!slot) return;
      const sent = await sendDigests(slot);
      logger.info({ slot, sent }, 'digests done');
    } catch (err) {
      logger.error({ err }, 'digest run failed');
    }
  },
  { timezone: 'UTC' },
);
