import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';

const run = promisify(execFile);
const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { maxRetriesPerRequest: 2 });
redis.on('error', (err) => console.error('redis', err.message));

const TTL_MS = 10 * 60_000;
const MARGIN_MS = 30_000;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

class RenderLease implements AsyncDisposable {
  readonly token = randomUUID();
  readonly key: string;
  readonly #deadline = performance.now() + TTL_MS - MARGIN_MS;

  constructor(reelId: string) {
    this.key = `subs:burn:${reelId}`;
  }

  static async take(reelId: string): Promise<RenderLease | null> {
    const lease = new RenderLease(reelId);
    const ok = await redis.set(lease.key, lease.token, 'PX', TTL_MS, 'NX');
    return ok === 'OK' ? lease : null;
  }

  get leftMs() {
    return Math.floor(this.#deadline - performance.now());
  }

  async [Symbol.asyncDispose]() {
    await redis
      .eval(RELEASE, 1, this.key, this.token)
      .catch((err: Error) => console.warn('release failed', this.key, err.message));
  }
}

export async function burnIn(job: { reelId: string; video: string; srt: string; out: string }) {
  await using lease = await RenderLease.take(job.reelId);
  if (!lease || lease.leftMs < 60_000) return { status: 'busy' as const };

  const tmp = `${job.out}.${lease.token}.mp4`;
  try {
    await run(
      'ffmpeg',
      ['-loglevel', 'error', '-y', '-i', job.video, '-vf', `subtitles=${job.srt}`, '-c:a', 'copy', tmp],
      { timeout: lease.leftMs, killSignal: 'SIGKILL' },
    );
    if (lease.leftMs <= 0) throw new Error(`burn-in of ${job.reelId} overran its lease`);
    await rename(tmp, job.out);
    return { status: 'done' as const };
  } finally {
    await rm(tmp, { force: true });
  }
}
