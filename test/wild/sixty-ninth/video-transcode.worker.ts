import { randomUUID } from 'node:crypto';
import { spawn } from 'node:child_process';
import { rename, rm } from 'node:fs/promises';
import path from 'node:path';
import Redis from 'ioredis';
import { Worker, type Job } from 'bullmq';
import pino from 'pino';

const log = pino({ name: 'transcode' });
const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { maxRetriesPerRequest: null });
redis.on('error', (err) => log.warn({ err }, 'redis'));

const MEDIA_ROOT = process.env.MEDIA_ROOT ?? '/srv/media';
const LEASE_MS = Number(process.env.TRANSCODE_LEASE_MS ?? 20_000);

interface TranscodeJob {
  assetId: string;
  source: string;
  profile: '480p' | '720p' | '1080p';
}

export class AssetLease {
  private timer?: NodeJS.Timeout;
  readonly lost = new AbortController();

  private constructor(private readonly client: Redis, readonly key: string, readonly token: string) {}

  static async take(client: Redis, assetId: string): Promise<AssetLease | null> {
    const key = `asset:${assetId}:lease`;
    const token = randomUUID();
    const reply = await client.set(key, token, 'PX', LEASE_MS, 'NX');
    if (reply !== 'OK') return null;
    const lease = new AssetLease(client, key, token);
    lease.timer = setInterval(() => void lease.renew(), LEASE_MS / 3);
    return lease;
  }

  /** Keeps the lease going; when the key is gone there is nothing to renew and the work stops. */
  async renew(): Promise<void> {
    try {
      const reply = await this.client.set(this.key, this.token, 'PX', LEASE_MS, 'XX');
      if (reply !== 'OK') {
        log.warn({ key: this.key }, 'lease gone');
        this.giveUp();
      }
    } catch (err) {
      log.error({ err, key: this.key }, 'lease renewal failed');
      this.giveUp();
    }
  }

  private giveUp() {
    clearInterval(this.timer);
    this.lost.abort(new Error('lease lost'));
  }

  async release(): Promise<void> {
    clearInterval(this.timer);
    await this.client.eval(
      `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
      1,
      this.key,
      this.token,
    );
  }
}

function ffmpeg(args: string[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('ffmpeg', ['-hide_banner', '-loglevel', 'error', '-y', ...args], { signal });
    let stderr = '';
    child.stderr.on('data', (d) => {
      stderr = (stderr + d).slice(-2000);
    });
    child.once('error', reject);
    child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`ffmpeg exited with ${code}: ${stderr}`))));
  });
}

const HEIGHT = { '480p': 480, '720p': 720, '1080p': 1080 } as const;

export async function process_(job: Job<TranscodeJob>) {
  const { assetId, source, profile } = job.data;
  const lease = await AssetLease.take(redis, assetId);
  if (!lease) {
    // same asset is being worked on: let bullmq come back with its backoff
    throw new Error(`asset ${assetId} is busy`);
  }
  const target = path.join(MEDIA_ROOT, assetId, `${profile}.mp4`);
  const partial = path.join(MEDIA_ROOT, assetId, 'work.mp4');
  try {
    await ffmpeg(['-i', source, '-vf', `scale=-2:${HEIGHT[profile]}`, '-c:v', 'libx264', '-c:a', 'aac', partial], lease.lost.signal);
    lease.lost.signal.throwIfAborted();
    await rename(partial, target);
    await redis.hset(`asset:${assetId}:renditions`, profile, target);
    return { target };
  } catch (err) {
    if (!lease.lost.signal.aborted) await rm(partial, { force: true });
    throw err;
  } finally {
    await lease.release().catch((err) => log.warn({ err, assetId }, 'release'));
  }
}

export const worker = new Worker<TranscodeJob>('transcode', process_, {
  connection: { url: process.env.REDIS_URL },
  concurrency: 2,
});
