import Redis from 'ioredis';
import { S3Client, PutObjectCommand } from '@aws-sdk/client-s3';
import { execFile } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import { v4 as uuid } from 'uuid';

const run = promisify(execFile);
const s3 = new S3Client({});
const redis = new Redis(process.env.REDIS_URL);

const SLOT_MS = 45_000;
const WAIT_MS = 60_000;

redis.defineCommand('slotTake', {
  numberOfKeys: 1,
  lua: `
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
    if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
    redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
    redis.call('PEXPIRE', KEYS[1], ARGV[3] * 2)
    return 1`,
});
redis.defineCommand('slotKeep', {
  numberOfKeys: 1,
  lua: `
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
    if not score or tonumber(score) <= now then return 0 end
    redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
    redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
    return 1`,
});

export class NoSlotError extends Error {}

async function takeSlot(key, limit) {
  const id = uuid();
  const giveUpAt = Date.now() + WAIT_MS;
  for (;;) {
    const sentAt = performance.now();
    if ((await redis.slotTake(key, id, limit, SLOT_MS)) === 1) return { id, sentAt };
    if (Date.now() > giveUpAt) throw new NoSlotError(key);
    await sleep(500 + Math.random() * 1_000);
  }
}

async function withSlot(key, limit, fn) {
  const { id, sentAt } = await takeSlot(key, limit);
  const ctl = new AbortController();
  let deadline;
  const arm = (from) => {
    clearTimeout(deadline);
    const left = SLOT_MS - 3_000 - (performance.now() - from);
    deadline = setTimeout(() => ctl.abort(new Error('slot timed out')), Math.max(left, 0));
  };
  arm(sentAt);
  const timer = setInterval(() => {
    const at = performance.now();
    redis.slotKeep(key, id, SLOT_MS).then(
      (ok) => (ok === 1 ? arm(at) : ctl.abort(new Error('slot lost'))),
      (err) => console.warn('slot keepalive', err.message),
    );
  }, SLOT_MS / 5);

  try {
    return await fn(ctl.signal);
  } finally {
    clearInterval(timer);
    clearTimeout(deadline);
    await redis.zrem(key, id).catch((err) => console.warn('slot return', err.message));
  }
}

export async function transcode({ jobId, customerId, sourceUrl, maxParallel }) {
  const out = path.join(tmpdir(), `${jobId}-${uuid()}.mp4`);
  try {
    return await withSlot(`transcode:slots:${customerId}`, maxParallel, async (signal) => {
      await run('ffmpeg', ['-y', '-i', sourceUrl, '-c:v', 'libx264', '-preset', 'medium', '-crf', '23', out], {
        signal,
        maxBuffer: 64 * 1024 * 1024,
      });
      const Key = `renditions/${customerId}/${jobId}/1080p.mp4`;
      await s3.send(
        new PutObjectCommand({ Bucket: process.env.MEDIA_BUCKET, Key, Body: createReadStream(out) }),
        { abortSignal: signal },
      );
      return Key;
    });
  } finally {
    await rm(out, { force: true });
  }
}
