import type { Redis } from '@upstash/redis';

export interface GetOrComputeOptions {
  /** How long a computed value is served, in seconds. */
  ttlSeconds: number;
  /** How long one caller may keep the others waiting, in seconds. @default 15 */
  lockSeconds?: number;
  /** How long a caller waits for another one's result, in milliseconds. @default 3000 */
  maxWaitMs?: number;
  /** Interval at which a waiting caller looks for the value. @default 150 */
  pollMs?: number;
}

/** Values are wrapped, so that `null` and `undefined` can be told from a miss. */
interface Envelope<T> {
  value: T;
}

type Lookup<T> = { hit: true; value: T } | { hit: false };

/**
 * Stores the value and opens the lock. A caller whose lock has run out may still fill an
 * empty cache, but does not replace what a later caller has stored.
 */
const PUBLISH = `
local mine = redis.call('GET', KEYS[1]) == ARGV[1]
if not mine and redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
if mine then
  redis.call('DEL', KEYS[1])
end
return 1
`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

async function lookup<T>(redis: Redis, key: string): Promise<Lookup<T>> {
  try {
    const found = await redis.get<Envelope<T>>(key);
    return found === null ? { hit: false } : { hit: true, value: found.value };
  } catch {
    return { hit: false };
  }
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * Read-through cache which spares the origin from a stampede: when a value is missing one
 * caller computes it and the rest wait a moment for the result.
 *
 * This thins out the load, it does not promise a single computation. A caller who has
 * waited `maxWaitMs`, or who cannot reach Redis, computes the value for itself without
 * caching it. `compute` must therefore be free of side effects.
 *
 * @example
 * ```ts
 * const trips = await getOrCompute(redis, `trips:${region}`, () => loadTrips(region), { ttlSeconds: 300 });
 * ```
 */
export async function getOrCompute<T>(
  redis: Redis,
  name: string,
  compute: () => Promise<T>,
  { ttlSeconds, lockSeconds = 15, maxWaitMs = 3000, pollMs = 150 }: GetOrComputeOptions,
): Promise<T> {
  const key = `cache:{${name}}`;
  const lockKey = `cache:{${name}}:lock`;

  const cached = await lookup<T>(redis, key);
  if (cached.hit) return cached.value;

  const token = crypto.randomUUID();
  let mayPublish: boolean;
  try {
    mayPublish = (await redis.set(lockKey, token, { nx: true, ex: lockSeconds })) === 'OK';
  } catch {
    return compute();
  }

  if (!mayPublish) {
    const until = Date.now() + maxWaitMs;
    while (Date.now() < until) {
      await sleep(pollMs);
      const arrived = await lookup<T>(redis, key);
      if (arrived.hit) return arrived.value;
    }
    return compute();
  }

  let value: T;
  try {
    value = await compute();
  } catch (error) {
    await redis.eval(UNLOCK, [lockKey], [token]).catch(() => undefined);
    throw error;
  }

  const envelope: Envelope<T> = { value };
  await redis
    .eval(PUBLISH, [lockKey, key], [token, JSON.stringify(envelope), String(ttlSeconds)])
    .catch(() => undefined);
  return value;
}
