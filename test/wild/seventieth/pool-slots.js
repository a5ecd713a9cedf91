import Redis from 'ioredis';
import { v4 as uuid } from 'uuid';

const redis = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379');
redis.on('error', (e) => console.error(e.message));

redis.defineCommand('slotEnter', {
  numberOfKeys: 1,
  lua: `
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
    redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
    if redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[3]) then
      return 0
    end
    return 1
  `,
});

redis.defineCommand('slotRenew', {
  numberOfKeys: 1,
  lua: `
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
    if not score or tonumber(score) <= now then return 0 end
    redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
    return 1
  `,
});

const LEASE = 60_000;

/**
 * Limits how many browsers the whole fleet has open.
 * Throws 'pool is full' when all slots are taken; callers requeue the job.
 */
export async function withBrowserSlot(limit, job) {
  const key = 'slots:browser';
  const id = uuid();

  const entered = await redis.slotEnter(key, id, LEASE, limit);
  if (entered !== 1) {
    throw Object.assign(new Error('pool is full'), { code: 'POOL_FULL' });
  }

  const ac = new AbortController();
  let until = Date.now() + LEASE * 0.8;
  const renew = setInterval(async () => {
    const at = Date.now();
    try {
      if ((await redis.slotRenew(key, id, LEASE)) === 1) until = at + LEASE * 0.8;
      else ac.abort(new Error('slot lost'));
    } catch (e) {
      console.warn('renew:', e.message);
    }
  }, LEASE / 6);
  const watch = setInterval(() => {
    if (Date.now() > until) ac.abort(new Error('slot ran out'));
  }, 1000);

  try {
    return await job(ac.signal);
  } finally {
    clearInterval(renew);
    clearInterval(watch);
    await redis.zrem(key, id).catch((e) => console.warn('leave:', e.message));
  }
}

export async function close() {
  await redis.quit();
}
