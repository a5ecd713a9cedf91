import Redis from 'ioredis';
import { Mutex } from 'redis-semaphore';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', {
  commandTimeout: 1_000,
  maxRetriesPerRequest: 1,
});
redis.on('error', () => {});

/** Transcoding takes anything between seconds and an hour; the mutex refreshes itself meanwhile. */
export async function transcodeExclusively<T>(videoId: string, transcode: () => Promise<T>): Promise<T> {
  const mutex = new Mutex(redis, `video:${videoId}`, {
    lockTimeout: 6_000,
    acquireTimeout: 10_000,
    retryInterval: 250,
    onLockLost: (err) => console.warn(`[video ${videoId}]`, err.message),
  });
  await mutex.acquire();
  try {
    return await transcode();
  } finally {
    await mutex.release();
  }
}
