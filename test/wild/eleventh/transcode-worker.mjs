import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const LOCK_TTL_MS = 30_000;
const HEARTBEAT_MS = 10_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  return 0
end`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
else
  return 0
end`;

export async function createWorker({ transcode, publish, log = console }) {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (err) => log.error('redis', err));
  await redis.connect();

  /**
   * Transcoding takes between one minute and an hour, so the lock is short
   * and kept alive by a heartbeat. One worker per video at any time.
   */
  async function processVideo(videoId) {
    const key = `video:${videoId}:lock`;
    const token = randomUUID();

    const ok = await redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
    if (ok !== 'OK') {
      log.info(`video ${videoId} is being processed by another worker`);
      return false;
    }

    const heartbeat = setInterval(async () => {
      try {
        await redis.eval(EXTEND, { keys: [key], arguments: [token, String(LOCK_TTL_MS)] });
        log.debug?.(`extended lock for ${videoId}`);
      } catch (err) {
        log.warn(`heartbeat for ${videoId} failed`, err);
      }
    }, HEARTBEAT_MS);

    try {
      for (const profile of ['1080p', '720p', '480p']) {
        const file = await transcode(videoId, profile);
        await publish(videoId, profile, file);
      }
      return true;
    } finally {
      clearInterval(heartbeat);
      await redis
        .eval(RELEASE, { keys: [key], arguments: [token] })
        .catch((err) => log.warn(`release of ${videoId} failed`, err));
    }
  }

  return { processVideo, close: () => redis.close() };
}
