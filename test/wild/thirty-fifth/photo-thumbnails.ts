import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker, type Job } from "bullmq";
import type { Redis } from "ioredis";

// Rendering eats memory on the shared GPU box, so the whole fleet may run only this many at once.
const MAX_RENDERS = 6;
const SLOT_MS = 60_000;
const RENDER_MS = 45_000;
const WAIT_MS = 120_000;

// Members are permits, scores the time (of the Redis server) at which they lapse.
const TAKE_SLOT = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local mine = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not mine and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

export class NoRenderSlot extends Error {}

async function withRenderSlot<T>(redis: Redis, pool: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const key = `thumbs:slots:${pool}`;
  const permit = randomUUID();
  const giveUpAt = performance.now() + WAIT_MS;

  try {
    for (;;) {
      // The clock of the work starts before the permit's, and is 15 s shorter.
      const deadline = AbortSignal.timeout(RENDER_MS);
      const granted = await redis.eval(TAKE_SLOT, 1, key, permit, MAX_RENDERS, SLOT_MS);
      if (granted === 1) return await fn(deadline);
      if (performance.now() >= giveUpAt) throw new NoRenderSlot(pool);
      await sleep(250 + Math.random() * 250);
    }
  } finally {
    await redis.zrem(key, permit).catch((err) => console.warn("slot lapses on its own", err));
  }
}

export interface PhotoStore {
  original(photoId: string, opts: { signal: AbortSignal }): Promise<Buffer>;
  putThumbnail(photoId: string, width: number, image: Buffer, opts: { signal: AbortSignal }): Promise<void>;
}

export type Resize = (image: Buffer, width: number, opts: { signal: AbortSignal }) => Promise<Buffer>;

export interface ThumbnailJob {
  photoId: string;
  widths: number[];
}

/**
 * Jobs are added with `attempts: 10` and exponential backoff; one that finds no slot or runs
 * out of time fails and is run again. Thumbnails are put under a fixed name, so a repeat
 * writes the same bytes to the same place.
 */
export function startThumbnailWorker(redis: Redis, photos: PhotoStore, resize: Resize): Worker<ThumbnailJob> {
  const worker = new Worker<ThumbnailJob>(
    "thumbnails",
    async (job: Job<ThumbnailJob>) => {
      const { photoId, widths } = job.data;
      return withRenderSlot(redis, "gpu", async (signal) => {
        const original = await photos.original(photoId, { signal });
        for (const width of widths) {
          signal.throwIfAborted();
          const image = await resize(original, width, { signal });
          await photos.putThumbnail(photoId, width, image, { signal });
        }
        return { photoId, count: widths.length };
      });
    },
    { connection: { url: process.env.REDIS_URL ?? "redis://127.0.0.1:6379" }, concurrency: 3 },
  );
  worker.on("failed", (job, err) => console.error(`thumbnail job ${job?.id} failed: ${err.message}`));
  worker.on("error", (err) => console.error("thumbnail worker", err));
  return worker;
}
