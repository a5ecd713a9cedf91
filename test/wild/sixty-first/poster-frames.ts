import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';
import Redlock, { type Lock } from 'redlock5';

const run = promisify(execFile);
const log = pino({ name: 'poster-frames' });

const settings = {
  redisUrl: process.env.REDIS_URL ?? 'redis://localhost:6379',
  bucket: process.env.MEDIA_BUCKET ?? 'media-posters',
  lockTtl: Number(process.env.POSTER_LOCK_TTL_SECONDS ?? 60),
  ffmpegTimeoutMs: 20_000,
  uploadTimeoutMs: 10_000,
};

const redis = new Redis(settings.redisUrl, { commandTimeout: 2_000 });
const redlock = new Redlock([redis], { retryCount: 20, retryDelay: 500, retryJitter: 200 });
redlock.on('error', (err) => log.debug({ err }, 'redlock'));

const s3 = new S3Client({});
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3_000,
  statement_timeout: 3_000,
});

interface PosterRequest {
  assetId: string;
  sourceUrl: string;
  atSeconds: number;
}

async function grabFrame(sourceUrl: string, atSeconds: number, target: string): Promise<void> {
  await run(
    'ffmpeg',
    ['-y', '-ss', String(atSeconds), '-i', sourceUrl, '-frames:v', '1', '-q:v', '3', target],
    { timeout: settings.ffmpegTimeoutMs, killSignal: 'SIGKILL' },
  );
}

async function upload(key: string, file: string): Promise<void> {
  await s3.send(
    new PutObjectCommand({
      Bucket: settings.bucket,
      Key: key,
      Body: await readFile(file),
      ContentType: 'image/jpeg',
    }),
    { abortSignal: AbortSignal.timeout(settings.uploadTimeoutMs) },
  );
}

async function replacePoster({ assetId, sourceUrl, atSeconds }: PosterRequest): Promise<number> {
  const { rows } = await pool.query<{ poster_rev: number }>('SELECT poster_rev FROM assets WHERE id = $1', [assetId]);
  if (!rows[0]) throw new Error(`unknown asset ${assetId}`);
  const revision = rows[0].poster_rev + 1;

  const dir = await mkdtemp(join(tmpdir(), 'poster-'));
  try {
    const file = join(dir, 'poster.jpg');
    await grabFrame(sourceUrl, atSeconds, file);
    await upload(`${assetId}/poster-${revision}.jpg`, file);
    await pool.query('UPDATE assets SET poster_rev = $2, poster_at = $3 WHERE id = $1', [assetId, revision, atSeconds]);
    return revision;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function unlock(lock: Lock, assetId: string): Promise<void> {
  try {
    await lock.release();
  } catch (err) {
    log.debug({ err, assetId }, 'poster lock was not released');
  }
}

export async function handlePosterRequest(request: PosterRequest): Promise<number> {
  const startedAt = Date.now();
  const lock = await redlock.acquire([`poster:${request.assetId}`], settings.lockTtl);
  try {
    const revision = await replacePoster(request);
    log.info({ assetId: request.assetId, revision, tookMs: Date.now() - startedAt }, 'poster replaced');
    return revision;
  } finally {
    await unlock(lock, request.assetId);
  }
}

export async function shutdown(): Promise<void> {
  await pool.end();
  await redis.quit();
}
