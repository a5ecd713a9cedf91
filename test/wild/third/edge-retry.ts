import { Redis } from '@upstash/redis';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL,
  token: process.env.UPSTASH_REDIS_REST_TOKEN,
  retry: false,
});

const CLEANUP = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

export interface EdgeLock {
  key: string;
  token: string;
  validUntil: number;
}

function timeout(ms: number): Promise<never> {
  return new Promise((_, reject) => setTimeout(reject, ms, new Error(`no answer within ${ms} ms`)));
}

export async function acquire(resource: string, ttl = 6_000, attempts = 8): Promise<EdgeLock | null> {
  const key = `edge:${resource}`;
  const token = `lk-${crypto.randomUUID()}`;

  for (let attempt = 1; attempt <= attempts; attempt++) {
    const start = performance.now();
    try {
      const reply = await Promise.race([redis.set(key, token, { nx: true, px: ttl }), timeout(400)]);
      const validUntil = start + ttl - 150;
      if (reply === 'OK' && performance.now() < validUntil) return { key, token, validUntil };
    } catch (err) {
      console.warn(`attempt ${attempt} for ${key}:`, (err as Error).message);
    }
    // whatever this attempt may have left behind
    void redis.eval(CLEANUP, [key], [token]).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 60 + Math.random() * 60));
  }
  return null;
}

export async function release(lock: EdgeLock): Promise<void> {
  await redis.eval(CLEANUP, [lock.key], [lock.token]);
}
