import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { promisify } from 'node:util';
import { S3Client } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import amqp from 'amqplib';
import Redis from 'ioredis';
import { assets } from './asset-repository';
import { logger } from './logger';

const run = promisify(execFile);
const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 3_000 });
const s3 = new S3Client({});

const TTL_MS = 30_000;
const MARGIN_MS = 3_000;

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

class AssetLease {
  private readonly abort = new AbortController();
  private readonly timer: NodeJS.Timeout;

  private constructor(
    private readonly key: string,
    private readonly token: string,
    private validUntil: number,
  ) {
    this.timer = setInterval(() => void this.beat(), TTL_MS / 6);
  }

  get signal(): AbortSignal {
    return this.abort.signal;
  }

  static async acquire(assetId: string): Promise<AssetLease | null> {
    const key = `transcode:asset:${assetId}`;
    const token = randomUUID();
    const askedAt = performance.now();
    const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
    return reply === 'OK' ? new AssetLease(key, token, askedAt + TTL_MS - MARGIN_MS) : null;
  }

  private async beat(): Promise<void> {
    const askedAt = performance.now();
    try {
      const renewed = await redis.eval(RENEW, 1, this.key, this.token, TTL_MS);
      if (renewed === 1) this.validUntil = askedAt + TTL_MS - MARGIN_MS;
      else this.lose('key is gone or taken');
    } catch (err) {
      logger.warn({ err, key: this.key }, 'heartbeat failed');
    }
    if (performance.now() >= this.validUntil) this.lose('not renewed in time');
  }

  private lose(reason: string): void {
    clearInterval(this.timer);
    if (!this.signal.aborted) this.abort.abort(new Error(`lease lost: ${reason}`));
  }

  async release(): Promise<void> {
    clearInterval(this.timer);
    await redis.eval(RELEASE, 1, this.key, this.token).catch((err) => logger.warn({ err, key: this.key }, 'release failed'));
  }
}

async function transcode(sourceUrl: string, targetKey: string, signal: AbortSignal): Promise<void> {
  const dir = await mkdtemp(path.join(tmpdir(), 'transcode-'));
  try {
    const out = path.join(dir, 'out.mp4');
    await run('ffmpeg', ['-y', '-i', sourceUrl, '-c:v', 'libx264', '-preset', 'medium', '-movflags', '+faststart', out], { signal });
    signal.throwIfAborted();
    await new Upload({ client: s3, params: { Bucket: process.env.MEDIA_BUCKET, Key: targetKey, Body: createReadStream(out) } }).done();
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function handle(assetId: string): Promise<'done' | 'busy'> {
  const lease = await AssetLease.acquire(assetId);
  if (!lease) return 'busy';

  const asset = await assets.findById(assetId);
  if (!asset || asset.status === 'ready') {
    logger.info({ assetId, status: asset?.status }, 'nothing to transcode');
    return 'done';
  }

  try {
    const targetKey = `renditions/${assetId}/${asset.sourceVersion}-1080p.mp4`;
    await transcode(asset.sourceUrl, targetKey, lease.signal);
    lease.signal.throwIfAborted();
    await assets.markReady(assetId, { sourceVersion: asset.sourceVersion, renditionKey: targetKey });
    return 'done';
  } finally {
    await lease.release();
  }
}

// Uploading a new source sets the asset back to 'pending' and sends another message.
export async function consume(): Promise<void> {
  const conn = await amqp.connect(process.env.AMQP_URL!);
  const ch = await conn.createChannel();
  await ch.prefetch(2);
  await ch.consume('media.transcode', async (msg) => {
    if (!msg) return;
    const assetId = msg.content.toString();
    try {
      if ((await handle(assetId)) === 'done') ch.ack(msg);
      else ch.nack(msg, false, false); // dead-letters into media.transcode.retry, back after 60 s
    } catch (err) {
      logger.error({ err, assetId }, 'transcode failed');
      ch.nack(msg, false, false);
    }
  });
}
