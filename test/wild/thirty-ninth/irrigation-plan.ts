import { randomUUID } from 'node:crypto';
import Redis, { type Result } from 'ioredis';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    leaseField(lock: string, counter: string, owner: string, ttlMs: number): Result<number | null, Context>;
    dropLease(lock: string, owner: string): Result<number, Context>;
    openPlan(plan: string, fence: number): Result<[string | null, string | null], Context>;
    savePlan(plan: string, fence: number, day: string, left: number, minutes: number): Result<number, Context>;
  }
}

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');

redis.defineCommand('leaseField', {
  numberOfKeys: 2,
  lua: `
    if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
      return redis.call('INCR', KEYS[2])
    end
    return nil`,
});
redis.defineCommand('dropLease', {
  numberOfKeys: 1,
  lua: `
    if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
    return 0`,
});
redis.defineCommand('openPlan', {
  numberOfKeys: 1,
  lua: `
    local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
    if tonumber(ARGV[1]) < seen then return redis.error_reply('STALE lease') end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1])
    return redis.call('HMGET', KEYS[1], 'day', 'litresLeft')`,
});
redis.defineCommand('savePlan', {
  numberOfKeys: 1,
  lua: `
    local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
    if tonumber(ARGV[1]) < seen then return 0 end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'day', ARGV[2], 'litresLeft', ARGV[3], 'minutes', ARGV[4])
    return 1`,
});

const SEASON_LITRES = 420_000;
const LITRES_PER_MINUTE = 38;

async function dryness(fieldId: string): Promise<number> {
  const res = await fetch(`${process.env.AGRO_URL}/fields/${fieldId}/dryness`, {
    signal: AbortSignal.timeout(20_000),
  });
  if (!res.ok) throw new Error(`agro service answered ${res.status}`);
  const body = (await res.json()) as { index: number };
  return body.index;
}

/** Works out today's watering. The valve controllers read the plan at dusk. */
export async function planField(fieldId: string, day: string): Promise<'planned' | 'busy' | 'done'> {
  const lock = `lock:field:${fieldId}`;
  const plan = `plan:field:${fieldId}`;
  const owner = randomUUID();

  const fence = await redis.leaseField(lock, `fence:field:${fieldId}`, owner, 5_000);
  if (fence === null) return 'busy';

  try {
    const [plannedDay, left] = await redis.openPlan(plan, fence);
    if (plannedDay === day) return 'done';

    const budget = left === null ? SEASON_LITRES : Number(left);
    const wanted = Math.round((await dryness(fieldId)) * 60) * LITRES_PER_MINUTE;
    const litres = Math.min(wanted, budget);

    const saved = await redis.savePlan(plan, fence, day, budget - litres, Math.floor(litres / LITRES_PER_MINUTE));
    if (saved !== 1) throw new Error(`plan for field ${fieldId} was taken over`);
    return 'planned';
  } finally {
    await redis.dropLease(lock, owner).catch(() => 0);
  }
}
