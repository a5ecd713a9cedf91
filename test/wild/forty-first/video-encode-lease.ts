import Redis from 'ioredis';
import Redlock, { Lock } from 'redlock5';
import { execa } from 'execa';
import pino from 'pino';
import knex from 'knex';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const log = pino({ name: 'encoder' });
const redis = new Redis(process.env.REDIS_URL!);
const db = knex({ client: 'pg', connection: process.env.DATABASE_URL });

const redlock = new Redlock([redis], { retryCount: 0, driftFactor: 0.01 });
redlock.on('error', () => {
  // also fires for "already locked", too noisy
});

const LEASE_MS = 60_000;
const LADDER = [
  { name: '360p', height: 360, rate: '800k' },
  { name: '720p', height: 720, rate: '2500k' },
  { name: '1080p', height: 1080, rate: '5000k' },
];

// a film takes a quarter of an hour or so, keep the lock alive meanwhile
function keepAlive(lock: Lock, videoId: string): () => void {
  const timer = setInterval(() => {
    lock.extend(LEASE_MS).catch((err) => log.warn({ err, videoId }, 'could not extend lock'));
  }, LEASE_MS / 3);
  return () => clearInterval(timer);
}

async function encode(video: { id: string; source: string; account_id: string; seconds: number }) {
  const dir = await mkdtemp(join(tmpdir(), 'enc-'));
  try {
    for (const r of LADDER) {
      const out = join(dir, `${r.name}.mp4`);
      await execa('ffmpeg', ['-y', '-i', video.source, '-vf', `scale=-2:${r.height}`, '-b:v', r.rate, out]);
      await execa('rclone', ['copyto', out, `media:videos/${video.id}/${r.name}.mp4`]);
    }
    await db.transaction(async (trx) => {
      await trx('videos').where({ id: video.id }).update({ status: 'ready' });
      await trx('usage').insert({ account_id: video.account_id, video_id: video.id, encoded_seconds: video.seconds });
    });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

export async function encodeVideo(videoId: string): Promise<boolean> {
  let lock: Lock;
  try {
    lock = await redlock.acquire([`encode:${videoId}`], LEASE_MS);
  } catch {
    return false; // another worker has it
  }

  const stop = keepAlive(lock, videoId);
  try {
    const video = await db('videos').where({ id: videoId }).first();
    if (!video || video.status === 'ready') return false;
    await encode(video);
    return true;
  } finally {
    stop();
    await lock.release().catch((err) => log.warn({ err, videoId }, 'release'));
  }
}

// every worker walks the same list
export async function main() {
  for (;;) {
    const todo = await db('videos').where({ status: 'uploaded' }).orderBy('created_at').limit(20);
    for (const v of todo) await encodeVideo(v.id).catch((err) => log.error({ err, id: v.id }, 'encode failed'));
    await new Promise((r) => setTimeout(r, 5_000));
  }
}
