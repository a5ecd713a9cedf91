import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export interface StreamOwnership {
  readonly isHeld: boolean;
  release(): Promise<void>;
}

/** Whoever owns the stream is its only consumer. Ownership is renewed until it is released. */
export async function ownStream(redis: Redis, stream: string, ttlMs = 9_000): Promise<StreamOwnership | null> {
  const key = `owner:${stream}`;
  const token = randomUUID();
  const asked = performance.now();
  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;

  let until = asked + ttlMs * 0.97;
  let released = false;
  const watchdog = setInterval(async () => {
    const at = performance.now();
    const renewed = await redis.eval(RENEW, 1, key, token, ttlMs).catch(() => undefined);
    if (renewed === 1) until = at + ttlMs * 0.97;
    else if (renewed === 0) until = 0;
  }, ttlMs / 3);

  return {
    get isHeld() {
      return !released && performance.now() < until;
    },
    async release() {
      released = true;
      await redis.eval(UNLOCK, 1, key, token);
      clearInterval(watchdog);
    },
  };
}
