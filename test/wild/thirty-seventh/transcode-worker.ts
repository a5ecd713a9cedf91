import Redis from 'ioredis';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { access, mkdir, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const exec = promisify(execFile);
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const blocking = redis.duplicate({ maxRetriesPerRequest: null });

const QUEUE = 'transcode:queue';
const FAILED = 'transcode:failed';
// ordinal of the stateful set, stays the same after a restart
const PROCESSING = `transcode:processing:${process.env.POD_ORDINAL ?? '0'}`;
const LOCK_MS = 30_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

interface Job {
  assetId: string;
  source: string;
}

const exists = (path: string) => access(path).then(() => true, () => false);

// Feature films take 20 to 40 minutes on these machines.
async function transcode(job: Job): Promise<void> {
  const dir = `/media/${job.assetId}`;
  if (await exists(`${dir}/READY`)) return;

  await mkdir(dir, { recursive: true });
  await exec('ffmpeg', [
    '-y', '-loglevel', 'error', '-i', job.source,
    '-c:v', 'libx264', '-preset', 'medium', '-c:a', 'aac',
    '-hls_time', '6', '-hls_playlist_type', 'vod',
    '-hls_segment_filename', `${dir}/seg_%05d.ts`,
    `${dir}/index.m3u8`,
  ]);
  await writeFile(`${dir}/READY`, new Date().toISOString());
}

async function moveTo(list: string, raw: string): Promise<void> {
  await redis.multi().lpush(list, raw).lrem(PROCESSING, 1, raw).exec();
}

async function processJob(raw: string): Promise<void> {
  const job = JSON.parse(raw) as Job;
  const lockKey = `transcode:lock:${job.assetId}`;
  const token = randomUUID();

  // the upload service may enqueue an asset more than once
  const locked = await redis.set(lockKey, token, 'PX', LOCK_MS, 'NX');
  if (locked !== 'OK') {
    await moveTo(QUEUE, raw);
    await sleep(5_000);
    return;
  }

  try {
    await transcode(job);
    await redis.lrem(PROCESSING, 1, raw);
  } finally {
    await redis.eval(UNLOCK, 1, lockKey, token).catch((err) => console.warn('unlock', lockKey, err));
  }
}

export async function main(signal: AbortSignal): Promise<void> {
  // what was left over from the last run of this pod
  for (const raw of await redis.lrange(PROCESSING, 0, -1)) {
    await moveTo(QUEUE, raw);
  }

  while (!signal.aborted) {
    const raw = await blocking.blmove(QUEUE, PROCESSING, 'RIGHT', 'LEFT', 5);
    if (!raw) continue;
    try {
      await processJob(raw);
    } catch (err) {
      console.error('transcode failed', raw, err);
      await moveTo(FAILED, raw);
    }
  }
}
