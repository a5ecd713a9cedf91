import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { maxRetriesPerRequest: null });

const TTL = 12_000;

const KEEP = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`;
const FREE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

export interface TranscodeJob {
  id: string;
  data: { videoId: string; profile: string };
}

/** For `new Worker('transcode', (job) => processTranscode(job, transcode))`. */
export async function processTranscode<T>(
  job: TranscodeJob,
  transcode: (job: TranscodeJob, signal: AbortSignal) => Promise<T>,
): Promise<T | 'busy'> {
  const key = `transcode:${job.data.videoId}`;
  const token = randomUUID();
  const asked = performance.now();
  if ((await redis.set(key, token, 'PX', TTL, 'NX')) !== 'OK') return 'busy';

  const lost = new AbortController();
  let fuse = setTimeout(() => lost.abort(), Math.max(0, asked + TTL - 300 - performance.now()));
  const watchdog = setInterval(async () => {
    const sent = performance.now();
    const kept = await redis.eval(KEEP, 1, key, token, TTL).catch(() => undefined);
    if (kept === undefined || lost.signal.aborted) return;
    clearTimeout(fuse);
    if (kept !== 1) return lost.abort();
    fuse = setTimeout(() => lost.abort(), Math.max(0, sent + TTL - 300 - performance.now()));
  }, TTL / 3);

  const result = await transcode(job, lost.signal);

  clearInterval(watchdog);
  clearTimeout(fuse);
  await redis.eval(FREE, 1, key, token);
  return result;
}
