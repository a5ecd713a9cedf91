import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { Readable } from 'node:stream';
import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import Redis from 'ioredis';
import pino from 'pino';
import { ulid } from 'ulid';

const log = pino({ name: 'transcode' });
const s3 = new S3Client({});
const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 3_000 });

// The hardware encoder licence covers this many sessions in the whole cluster.
const MAX_SESSIONS = Number(process.env.ENCODER_SESSIONS ?? 6);
// Seconds. Download 2 min + encode 9 min + upload 2 min fit in.
const SLOT_LEASE = Number(process.env.ENCODER_SLOT_LEASE ?? 900);

const ENTER = `
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local lease = tonumber(ARGV[3])
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - lease)
  if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('ZADD', KEYS[1], now, ARGV[1])
    redis.call('EXPIRE', KEYS[1], lease)
    return 1
  end
  return 0`;

const KEY = 'encoder:sessions';

async function enter(): Promise<string | null> {
  const ticket = ulid();
  const ok = await redis.eval(ENTER, 1, KEY, ticket, MAX_SESSIONS, SLOT_LEASE);
  return ok === 1 ? ticket : null;
}

async function leave(ticket: string): Promise<void> {
  await redis.zrem(KEY, ticket).catch((err) => log.warn({ err, ticket }, 'session not closed'));
}

async function encode(input: string, output: string): Promise<void> {
  const child = spawn('ffmpeg', ['-y', '-i', input, '-c:v', 'h264_nvenc', '-preset', 'p5', output], {
    stdio: ['ignore', 'ignore', 'inherit'],
    timeout: 540_000,
    killSignal: 'SIGKILL',
  });
  const [code, signal] = await once(child, 'exit');
  if (code !== 0) throw new Error(`ffmpeg ended with ${code ?? signal}`);
}

/** Returns false when all sessions are in use; the caller puts the job back with a delay. */
export async function transcode(bucket: string, key: string): Promise<boolean> {
  const ticket = await enter();
  if (!ticket) return false;

  const input = `/scratch/${ticket}.in`;
  const output = `/scratch/${ticket}.mp4`;
  const startedAt = Date.now();
  try {
    const download = AbortSignal.timeout(120_000);
    const obj = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: key }), { abortSignal: download });
    await pipeline(obj.Body as Readable, createWriteStream(input), { signal: download });

    await encode(input, output);

    await s3.send(
      new PutObjectCommand({ Bucket: bucket, Key: `${key}.mp4`, Body: createReadStream(output) }),
      { abortSignal: AbortSignal.timeout(120_000) },
    );
    log.info({ key, tookMs: Date.now() - startedAt }, 'transcoded');
    return true;
  } finally {
    await leave(ticket);
    await Promise.all([rm(input, { force: true }), rm(output, { force: true })]);
  }
}
