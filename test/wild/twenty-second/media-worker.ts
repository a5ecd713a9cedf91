import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

export interface MediaJob {
  id: string;
  source: string;
  renditions: string[];
}

export interface JobQueue {
  /** Waits for a job; the same job may be delivered more than once. */
  next(signal: AbortSignal): Promise<MediaJob | null>;
  isFinished(id: string): Promise<boolean>;
  finish(job: MediaJob): Promise<void>;
  putBack(job: MediaJob, delayMs: number): Promise<void>;
}

export type Transcode = (source: string, rendition: string) => Promise<void>;

const LEASE_MS = 30_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export async function connect() {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (err) => console.error('[media] redis', err.message));
  await redis.connect();
  return redis;
}

export async function runWorker(
  redis: Awaited<ReturnType<typeof connect>>,
  queue: JobQueue,
  transcode: Transcode,
  shutdown: AbortSignal,
): Promise<void> {
  while (!shutdown.aborted) {
    const job = await queue.next(shutdown);
    if (job) await processJob(redis, queue, transcode, job);
  }
}

async function processJob(
  redis: Awaited<ReturnType<typeof connect>>,
  queue: JobQueue,
  transcode: Transcode,
  job: MediaJob,
): Promise<void> {
  const key = `media:job:${job.id}:lock`;
  const token = randomUUID();

  const reply = await redis.set(key, token, { NX: true, PX: LEASE_MS });
  if (reply !== 'OK') {
    // Another worker is on it. Look again later in case that one dies.
    await queue.putBack(job, LEASE_MS);
    return;
  }

  // Transcoding takes anything from seconds to an hour, so keep the lease fresh.
  const heartbeat = setInterval(() => {
    redis
      .eval(EXTEND, { keys: [key], arguments: [token, String(LEASE_MS)] })
      .catch((err) => console.warn(`[media] ${job.id}: heartbeat`, err.message));
  }, LEASE_MS / 3);

  try {
    if (await queue.isFinished(job.id)) return;
    for (const rendition of job.renditions) {
      console.log(`[media] ${job.id}: ${rendition}`);
      await transcode(job.source, rendition);
    }
    await queue.finish(job);
  } catch (err) {
    console.error(`[media] ${job.id}: failed`, err);
    await queue.putBack(job, 5_000);
  } finally {
    clearInterval(heartbeat);
    await redis
      .eval(RELEASE, { keys: [key], arguments: [token] })
      .catch((err) => console.warn(`[media] ${job.id}: release`, err.message));
  }
}
