import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { transcode } from './transcode.mjs';
import logger from './logger.mjs';

const redis = new Redis(process.env.REDIS_URL);
const blocking = redis.duplicate();

const QUEUE = 'transcode:jobs';
const PROCESSING = `transcode:processing:${process.env.WORKER_ID}`; // ordinal of the stateful set
const RETRY = 'transcode:retry'; // zset, moved back to QUEUE by the scheduler
const LOCK_MS = 45_000;
const RETRY_MS = 60_000;

redis.defineCommand('lockExtend', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then
          return redis.call('pexpire', KEYS[1], ARGV[2])
        end
        return 0`,
});

redis.defineCommand('lockRelease', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then
          return redis.call('del', KEYS[1])
        end
        return 0`,
});

async function retryLater(raw) {
  await redis.multi().zadd(RETRY, Date.now() + RETRY_MS, raw).lrem(PROCESSING, 1, raw).exec();
}

function keepAlive(key, token, aborter) {
  let last = Date.now();
  return setInterval(async () => {
    const at = Date.now();
    try {
      if ((await redis.lockExtend(key, token, LOCK_MS)) === 1) {
        last = at;
      } else {
        aborter.abort(new Error(`lost ${key}`));
      }
    } catch (err) {
      logger.warn({ err, key }, 'lock not extended');
      if (Date.now() - last > LOCK_MS * 0.6) aborter.abort(new Error(`could not keep ${key}`));
    }
  }, LOCK_MS / 5);
}

async function handle(raw) {
  const job = JSON.parse(raw);
  const key = `transcode:lock:${job.videoId}`;
  const token = randomUUID();

  // the same video can be queued twice (re-upload, preset change)
  if ((await redis.set(key, token, 'PX', LOCK_MS, 'NX')) !== 'OK') {
    return retryLater(raw);
  }

  const aborter = new AbortController();
  const timer = keepAlive(key, token, aborter);

  try {
    await transcode(job, { signal: aborter.signal });
    clearInterval(timer);
    await redis.multi().lrem(PROCESSING, 1, raw).incr('transcode:done').exec();
    await redis.lockRelease(key, token);
    logger.info({ videoId: job.videoId }, 'transcoded');
  } catch (err) {
    // Not released here: whatever broke is likely still broken, so the video
    // stays locked until the lock runs out and nobody hammers it meanwhile.
    logger.error({ err, videoId: job.videoId }, 'transcode failed, will retry');
    await retryLater(raw);
  }
}

let running = true;
process.on('SIGTERM', () => {
  running = false;
});

// jobs we had in hand when we went down
while (await redis.lmove(PROCESSING, QUEUE, 'LEFT', 'RIGHT'));

while (running) {
  const raw = await blocking.blmove(QUEUE, PROCESSING, 'RIGHT', 'LEFT', 5);
  if (!raw) continue;
  try {
    await handle(raw);
  } catch (err) {
    logger.error({ err }, 'consumer error');
  }
}

await Promise.allSettled([redis.quit(), blocking.quit()]);
process.exit(0);
