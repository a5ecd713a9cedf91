import { Redis } from '@upstash/redis';

// UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN
const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
  retry: false,
});

const compareAndDelete = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`;

export type Work<T> = (context: { signal: AbortSignal }) => Promise<T>;

/**
 * `await withEdgeLock('invoice:42', 10, ({ signal }) => fetch(url, { signal }))`
 * Returns undefined if the lock is taken. Work has until shortly before the TTL.
 */
export const withEdgeLock = async <T>(name: string, seconds: number, work: Work<T>): Promise<T | undefined> => {
  const key = `edge-lock:${name}`;
  const token = `t-${crypto.randomUUID()}`;
  const release = () => redis.eval(compareAndDelete, [key], [token]);

  const before = performance.now();
  let set: unknown;
  try {
    set = await redis.set(key, token, { nx: true, px: seconds * 1000 });
  } catch (e) {
    await release().catch(() => undefined);
    throw e;
  }
  if (set !== 'OK') return undefined;

  const left = before + seconds * 970 - 10 - performance.now();
  if (left <= 0) {
    await release().catch(() => undefined);
    return undefined;
  }
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new Error(`${name}: time is up`)), left);
  try {
    return await work({ signal: controller.signal });
  } finally {
    clearTimeout(timer);
    await release().catch((e) => console.error(`release of ${key} failed`, e));
  }
};
