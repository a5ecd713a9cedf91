import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 500, maxRetriesPerRequest: 1 });
redis.on('error', () => {});
const OWN = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end ";

export async function claimRoom(room, ms = 6_000) {
  const token = randomUUID();
  let until = performance.now() + ms * 0.9;
  if ((await redis.set(room, token, 'PX', ms, 'NX')) === null) return null;
  const timer = setInterval(async () => {
    const begun = performance.now();
    const extended = await redis
      .eval(`${OWN} return redis.call('pexpire', KEYS[1], ARGV[2])`, 1, room, token, ms)
      .catch(() => 0);
    if (extended === 1) until = begun + ms * 0.9;
  }, ms / 3);
  return {
    isHeld: () => performance.now() < until,
    async unlock() {
      until = 0;
      await redis.eval(`${OWN} return redis.call('del', KEYS[1])`, 1, room, token);
      clearInterval(timer);
    },
  };
}
