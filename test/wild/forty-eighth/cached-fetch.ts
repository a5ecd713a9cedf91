import { Redis } from "@upstash/redis";

const redis = Redis.fromEnv();

const PUBLISH = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("set", KEYS[2], ARGV[2], "EX", ARGV[3])
redis.call("del", KEYS[1])
return 1`;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end
return 0`;

const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms));

/** One caller hits the origin, the others wait for the cached copy. */
export async function cachedFetch<T>(url: string, maxAgeSeconds = 300): Promise<T> {
  const cacheKey = `cache:${url}`;
  const lockKey = `cache-lock:${url}`;
  const giveUpAt = Date.now() + 12_000;

  while (Date.now() < giveUpAt) {
    const hit = await redis.get<{ body: T }>(cacheKey);
    if (hit !== null) return hit.body;

    const token = crypto.randomUUID();
    const got = await redis.set(lockKey, token, { nx: true, px: 15_000 });
    if (got !== "OK") {
      await sleep(150 + Math.random() * 150);
      continue;
    }

    try {
      const res = await fetch(url, { signal: AbortSignal.timeout(8_000) });
      if (!res.ok) throw new Error(`origin answered ${res.status}`);
      const body = (await res.json()) as T;
      await redis.eval(PUBLISH, [lockKey, cacheKey], [token, JSON.stringify({ body }), String(maxAgeSeconds)]);
      return body;
    } finally {
      await redis.eval(RELEASE, [lockKey], [token]).catch((err) => console.warn("release", err));
    }
  }
  throw new Error(`no cached copy of ${url} in time`);
}
