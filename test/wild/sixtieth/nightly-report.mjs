import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import { createClient } from 'redis';
import { buildReport, mailReport } from './report.mjs';

const LOCK_KEY = 'cron:nightly-report';

// The report takes three to five minutes; we keep the lock for at most fifteen.
const LOCK_TTL = 15 * 60;
const JOB_TIMEOUT = 12 * 60;

const RELEASE_SCRIPT = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  else
    return 0
  end
`;

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('[redis]', err));
await redis.connect();

async function onOneInstance(job) {
  const token = randomUUID();
  const acquired = await redis.set(LOCK_KEY, token, { NX: true, PX: LOCK_TTL });

  if (acquired !== 'OK') {
    console.log('[cron] report is running on another instance, skipping');
    return;
  }

  console.log('[cron] lock acquired');
  try {
    await job(AbortSignal.timeout(JOB_TIMEOUT * 1000));
  } finally {
    try {
      await redis.eval(RELEASE_SCRIPT, { keys: [LOCK_KEY], arguments: [token] });
    } catch (err) {
      console.error('[cron] could not release lock', err);
    }
  }
}

// All replicas of the service run this schedule
cron.schedule('0 2 * * *', async () => {
  try {
    await onOneInstance(async (signal) => {
      const report = await buildReport({ signal });
      signal.throwIfAborted();
      await mailReport(report, { signal });
    });
  } catch (err) {
    console.error('[cron] nightly report failed', err);
  }
});
