import { DelayedError, Worker, type Job } from 'bullmq';
import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { execa } from 'execa';
import { config } from './config';
import { logger } from './logger';
import { titles } from './repositories/titles';

interface TranscodeJob {
  titleId: string;
  source: string;
  profile: 'sd' | 'hd' | 'uhd';
}

const connection = new Redis(config.redisUrl, { maxRetriesPerRequest: null });
const redis = new Redis(config.redisUrl, { commandTimeout: 2_000, maxRetriesPerRequest: 1 });

const TTL_MS = 30_000;
const SAFETY_MS = 4_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

/**
 * Holds the output folder of a title. The lease is extended every 7 s; if that does not work out
 * in time the signal is aborted and ffmpeg is killed.
 */
class FolderLock {
  private readonly token = randomUUID();
  private readonly ac = new AbortController();
  private validUntil = 0;
  private timers: NodeJS.Timeout[] = [];

  constructor(private readonly key: string) {}

  get signal() {
    return this.ac.signal;
  }

  async acquire(): Promise<boolean> {
    const sentAt = Date.now();
    const reply = await redis.set(this.key, this.token, 'PX', TTL_MS, 'NX');
    if (reply !== 'OK') return false;
    this.validUntil = sentAt + TTL_MS - SAFETY_MS;
    this.timers = [
      setInterval(() => void this.extend(), 7_000),
      setInterval(() => {
        if (Date.now() > this.validUntil) this.ac.abort(new Error(`${this.key}: lease ran out`));
      }, 500),
    ];
    return true;
  }

  private async extend() {
    const sentAt = Date.now();
    try {
      // 0 means that the key is gone, i.e. that we lost the lock
      const extended = await redis.pexpire(this.key, TTL_MS);
      if (extended === 1) this.validUntil = sentAt + TTL_MS - SAFETY_MS;
      else this.ac.abort(new Error(`${this.key}: lock lost`));
    } catch (err) {
      logger.warn({ err, key: this.key }, 'could not extend lock');
    }
  }

  async release() {
    this.timers.forEach(clearInterval);
    await redis.eval(RELEASE, 1, this.key, this.token).catch((err) => {
      logger.warn({ err, key: this.key }, 'could not release lock');
    });
  }
}

async function transcode(job: Job<TranscodeJob>, jobToken?: string) {
  const { titleId, source, profile } = job.data;
  const lock = new FolderLock(`transcode:${titleId}:${profile}`);

  if (!(await lock.acquire())) {
    await job.moveToDelayed(Date.now() + 60_000, jobToken);
    throw new DelayedError();
  }

  try {
    const out = `${config.mediaRoot}/${titleId}/${profile}`;
    await execa(
      'ffmpeg',
      ['-y', '-i', source, ...config.profiles[profile], '-f', 'dash', `${out}/stream.mpd`],
      { cancelSignal: lock.signal, forceKillAfterDelay: 1_000 },
    );
    lock.signal.throwIfAborted();
    await titles.setStream(titleId, profile, `${out}/stream.mpd`);
    logger.info({ titleId, profile, job: job.id }, 'transcoded');
  } finally {
    await lock.release();
  }
}

export const worker = new Worker<TranscodeJob>('transcode', transcode, {
  connection,
  concurrency: Number(process.env.TRANSCODE_CONCURRENCY ?? 2),
});

worker.on('failed', (job, err) => logger.error({ err, job: job?.id }, 'transcode failed'));
