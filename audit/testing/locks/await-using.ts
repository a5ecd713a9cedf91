import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

export async function lock(
  redis: Redis,
  key: string,
  ttlMs = 8_000,
): Promise<({ token: string } & AsyncDisposable) | null> {
  const token = randomUUID();
  let extending: NodeJS.Timeout | undefined;
  const got = await redis.set(key, token, 'PX', ttlMs, 'NX');
  if (!got) return null;
  extending = setInterval(() => {
    redis.pexpire(key, ttlMs).catch(() => {});
  }, ttlMs / 2);
  return {
    token,
    async [Symbol.asyncDispose]() {
      clearInterval(extending);
      await redis.eval(
        "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0",
        1,
        key,
        token,
      );
    },
  };
}
