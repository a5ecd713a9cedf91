import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import Redis from 'ioredis';

const url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379';
const redis = new Redis(url);
const subscriber = new Redis(url);

const LOCK_TTL = 5_000;
const POLL = 250;

// Stores the value only for the one who still has the lock, and wakes up the others.
const PUBLISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[4], 'ready')
return 1`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[2], 'failed')
  return 1
end
return 0`;

const wakeUps = new EventEmitter().setMaxListeners(0);
subscriber.on('pmessage', (_pattern, channel) => wakeUps.emit(channel));
const subscribed = subscriber.psubscribe('price:wake:*');

// Whichever is first: a message, or it is time to look again anyway.
async function waitFor(channel) {
  await once(wakeUps, channel, { signal: AbortSignal.timeout(POLL) }).catch(() => {});
}

/**
 * Price from the cache, or from `compute`, which runs for one caller only however many ask.
 * `compute` is given a signal and has to end with it.
 */
export async function getPrice(sku, compute, { cacheMs = 60_000, timeout = 10_000 } = {}) {
  await subscribed;
  const cacheKey = `{price:${sku}}:value`;
  const lockKey = `{price:${sku}}:lock`;
  const channel = `price:wake:${sku}`;
  const giveUp = performance.now() + timeout;

  while (performance.now() < giveUp) {
    const cached = await redis.get(cacheKey);
    if (cached !== null) return JSON.parse(cached);

    const token = randomUUID();
    const signal = AbortSignal.timeout(LOCK_TTL);
    const lockedUntil = performance.now() + LOCK_TTL;
    if ((await redis.set(lockKey, token, 'PX', LOCK_TTL, 'NX')) !== 'OK') {
      await waitFor(channel);
      continue;
    }

    try {
      // somebody may have stored it between our GET and our SET
      const fresh = await redis.get(cacheKey);
      if (fresh !== null) {
        await redis.eval(RELEASE, 1, lockKey, token, channel);
        return JSON.parse(fresh);
      }
      if (performance.now() >= lockedUntil) throw new Error(`price of ${sku}: too slow`);
      const value = await compute(sku, signal);
      await redis.eval(PUBLISH, 2, lockKey, cacheKey, token, JSON.stringify(value), cacheMs, channel);
      return value;
    } catch (err) {
      await redis.eval(RELEASE, 1, lockKey, token, channel).catch(() => {});
      throw err;
    }
  }
  throw new Error(`price of ${sku}: timed out`);
}
