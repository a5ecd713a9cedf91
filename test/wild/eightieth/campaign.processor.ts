import { hostname } from 'node:os';
import { Worker, DelayedError, type Job } from 'bullmq';
import Redis from 'ioredis';
import { sendMail, loadRecipients, getCursor, setCursor } from '../mailer';

const connection = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
const OWNER = `${hostname()}:${process.pid}`;
const LOCK_MS = 120_000;
const BATCH = 200;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function acquire(key: string): Promise<boolean> {
  const ok = await connection.set(key, OWNER, 'PX', LOCK_MS, 'NX');
  if (ok === 'OK') return true;
  // a retried job may find the lock of its earlier attempt
  const owner = await connection.get(key);
  return owner === OWNER;
}

async function release(key: string) {
  await connection.eval(RELEASE, 1, key, OWNER);
}

interface CampaignJob {
  campaignId: string;
  template: string;
}

async function sendBatch(job: Job<CampaignJob>) {
  const { campaignId, template } = job.data;
  const cursor = await getCursor(campaignId);
  const recipients = await loadRecipients(campaignId, cursor, BATCH);
  if (recipients.length === 0) return { sent: 0 };

  const results = await Promise.allSettled(
    recipients.map((r: { email: string; vars: Record<string, string> }) =>
      sendMail({ to: r.email, template, vars: r.vars, timeoutMs: 15_000 }),
    ),
  );
  await setCursor(campaignId, cursor + recipients.length);

  const failed = results.filter((r) => r.status === 'rejected').length;
  await job.updateProgress({ cursor: cursor + recipients.length, failed });
  return { sent: recipients.length - failed };
}

export const worker = new Worker<CampaignJob>(
  'campaign-batches',
  async (job, token) => {
    const key = `campaign:${job.data.campaignId}:lock`;
    if (!(await acquire(key))) {
      await job.moveToDelayed(Date.now() + 5_000, token);
      throw new DelayedError();
    }
    try {
      return await sendBatch(job);
    } finally {
      await release(key);
    }
  },
  { connection, concurrency: 10 },
);

worker.on('failed', (job, err) => {
  console.error(`campaign job ${job?.id} failed`, err);
});
