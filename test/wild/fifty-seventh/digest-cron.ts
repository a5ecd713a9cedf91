import os from 'node:os';
import cron from 'node-cron';
import Redis from 'ioredis';
import pino from 'pino';
import { sendDigest } from './digest/send';
import { listDigestAccounts } from './digest/accounts';

const log = pino({ name: 'digest-cron' });
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { maxRetriesPerRequest: 3 });
redis.on('error', (err) => log.warn({ err }, 'redis error'));

const SCHEDULE = '0 6 * * *';
const TIMEZONE = 'Etc/UTC';

// Longer than any clock difference between the pods, shorter than we care to keep rubbish around.
const CLAIM_TTL_SECONDS = 20 * 60 * 60;

/**
 * Claims today's run for this pod.
 *
 * The key carries the day and is never deleted: it is not "somebody is running" but "this day
 * has been taken". What this gives is AT MOST one run a day. If the pod dies half way, or Redis
 * loses the reply, the rest of that day's digests are not sent, and product is fine with it -
 * a missing digest is better than a second one. Re-run by hand with `pnpm digest --day`.
 * A Redis failover in just those seconds could forget a claim; accepted for e-mails.
 */
async function claimDay(job: string, day: string): Promise<boolean> {
  const reply = await redis.set(`cron:${job}:${day}`, os.hostname(), 'EX', CLAIM_TTL_SECONDS, 'NX');
  return reply === 'OK';
}

/** 06:00 UTC is far from midnight, so pods with slightly different clocks agree on the day. */
function utcDay(now: Date): string {
  return now.toISOString().slice(0, 10);
}

async function runDigest(): Promise<void> {
  const day = utcDay(new Date());

  let claimed: boolean;
  try {
    claimed = await claimDay('daily-digest', day);
  } catch (err) {
    // Without an answer we cannot know; do not send.
    log.error({ err, day }, 'could not claim the digest run, skipping on this pod');
    return;
  }
  if (!claimed) {
    log.debug({ day }, 'digest already taken by another pod');
    return;
  }

  const startedAt = Date.now();
  let sent = 0;
  let failed = 0;
  for await (const account of listDigestAccounts()) {
    try {
      await sendDigest(account, day);
      sent += 1;
    } catch (err) {
      failed += 1;
      log.error({ err, accountId: account.id }, 'digest failed');
    }
  }
  log.info({ day, sent, failed, ms: Date.now() - startedAt }, 'daily digest finished');
}

const task = cron.schedule(
  SCHEDULE,
  () => {
    runDigest().catch((err) => log.error({ err }, 'digest run crashed'));
  },
  { timezone: TIMEZONE },
);

process.once('SIGTERM', () => {
  task.stop();
  redis.quit().catch(() => redis.disconnect());
});
