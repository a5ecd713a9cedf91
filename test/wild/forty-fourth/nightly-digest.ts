import { hostname } from 'node:os';
import cron from 'node-cron';
import dayjs from 'dayjs';
import timezone from 'dayjs/plugin/timezone';
import utc from 'dayjs/plugin/utc';
import pino from 'pino';
import { createClient } from 'redis';
import { digestRepository } from './digest-repository';
import { mailer } from './mailer';

dayjs.extend(utc);
dayjs.extend(timezone);

const log = pino({ name: 'nightly-digest' });
const TZ = process.env.DIGEST_TZ ?? 'Europe/Berlin';

// Longer than the gap between two runs is not needed, the key carries the date;
// a day and a half just keeps yesterday's entry around for support.
const GUARD_TTL_SECONDS = 36 * 60 * 60;

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis error'));

/**
 * Every replica of the API runs this schedule. The first one to claim the day
 * sends the digest, the others skip. At most once per day is what product asked
 * for: a day without a digest is fine (support has a button for it), the same
 * mail twice is not. So the claim stays, also when sending fails half way.
 */
async function claimDay(day: string): Promise<boolean> {
  const reply = await redis.set(`digest:claimed:${day}`, hostname(), {
    NX: true,
    EX: GUARD_TTL_SECONDS,
  });
  return reply === 'OK';
}

async function sendDigest(day: string): Promise<{ sent: number; failed: number }> {
  let sent = 0;
  let failed = 0;
  for await (const subscriber of digestRepository.subscribers({ day })) {
    const items = await digestRepository.itemsFor(subscriber.id, day);
    if (items.length === 0) continue;
    try {
      await mailer.send({
        to: subscriber.email,
        template: 'nightly-digest',
        locale: subscriber.locale,
        data: { day, items },
        idempotencyKey: `digest-${day}-${subscriber.id}`,
      });
      sent += 1;
    } catch (err) {
      failed += 1;
      log.warn({ err, subscriber: subscriber.id }, 'digest mail failed');
    }
  }
  return { sent, failed };
}

export async function runDigest(): Promise<void> {
  const day = dayjs().tz(TZ).format('YYYY-MM-DD');

  let mine: boolean;
  try {
    mine = await claimDay(day);
  } catch (err) {
    log.error({ err, day }, 'could not claim digest day, not sending');
    return;
  }
  if (!mine) {
    const by = await redis.get(`digest:claimed:${day}`).catch(() => null);
    log.info({ day, by }, 'digest already claimed');
    return;
  }

  const startedAt = Date.now();
  const result = await sendDigest(day);
  log.info({ day, ...result, tookMs: Date.now() - startedAt }, 'digest sent');
}

export async function start(): Promise<void> {
  await redis.connect();
  cron.schedule(
    '0 6 * * *',
    () => {
      runDigest().catch((err) => log.error({ err }, 'digest run failed'));
    },
    { timezone: TZ },
  );
}
