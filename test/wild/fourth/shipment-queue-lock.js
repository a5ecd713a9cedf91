import { randomUUID } from 'node:crypto';

const RELEASE_AND_WAKE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('DEL', KEYS[2])
redis.call('LPUSH', KEYS[2], '1')
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
`;

/**
 * Lock whose waiters sleep in BLPOP instead of polling. What they pop is a hint
 * to try again, nothing more; if a hint is missed they try again after a second.
 *
 * @param {import('ioredis').Redis} redis
 */
export function createShipmentLock(redis, { ttlMs = 8000, prefix = 'shipment' } = {}) {
  const lockKey = (id) => `${prefix}:{${id}}:lock`;
  const wakeKey = (id) => `${prefix}:{${id}}:wake`;

  async function attempt(id, token) {
    return (await redis.set(lockKey(id), token, 'PX', ttlMs, 'NX')) === 'OK';
  }

  async function lock(id, { waitMs = 10000 } = {}) {
    let token = randomUUID();
    if (!(await attempt(id, token))) {
      const giveUp = performance.now() + waitMs;
      const waiter = redis.duplicate();
      try {
        for (;;) {
          if (performance.now() >= giveUp) {
            throw Object.assign(new Error(`shipment ${id} stayed locked for ${waitMs}ms`), { code: 'ELOCKED' });
          }
          await waiter.blpop(wakeKey(id), 1);
          token = randomUUID();
          if (await attempt(id, token)) break;
        }
      } finally {
        waiter.disconnect();
      }
    }
    return {
      id,
      unlock: async () => (await redis.eval(RELEASE_AND_WAKE, 2, lockKey(id), wakeKey(id), token, ttlMs)) === 1,
    };
  }

  return {
    lock,
    async using(id, fn, options) {
      const handle = await lock(id, options);
      try {
        return await fn();
      } finally {
        await handle.unlock();
      }
    },
  };
}

export function trackingUrl(carrier, code) {
  const hosts = { dhl: 'https://www.dhl.com/track', ups: 'https://www.ups.com/track' };
  return `${hosts[carrier] ?? 'https://parcels.example'}?code=${encodeURIComponent(code)}`;
}
