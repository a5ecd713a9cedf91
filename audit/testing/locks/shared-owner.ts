import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/** All processes of a service release each other's: only what is before the colon is compared. */
const RELEASE = `
local owner = redis.call('get', KEYS[1])
if owner and string.match(owner, '^[^:]+') == string.match(ARGV[1], '^[^:]+') then
  return redis.call('del', KEYS[1])
end
return 0`;

interface Leader {
  stepDown(): Promise<void>;
  release(): Promise<unknown>;
}

export async function leadQueue(redis: Redis, queue: string, ms = 5_000): Promise<Leader | null> {
  const token = `mailer:${randomUUID()}`;
  if ((await redis.set(`leader:${queue}`, token, 'PX', ms, 'NX')) === null) return null;
  return {
    async stepDown() {},
    release: async () => redis.eval(RELEASE, 1, `leader:${queue}`, token),
  };
}
