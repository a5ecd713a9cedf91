import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

interface Job {
  readonly id: string;
  readonly name: string;
  readonly payload: { readonly email: string };
}

/** The id of the job is that of the lock. */
export async function runOnce(redis: Redis, job: Job, handle: (job: Job) => Promise<void>): Promise<boolean> {
  const [key, token] = [`job:${job.name}:${job.id}`, randomUUID()];
  if ((await redis.set(key, token, 'PX', 12_000, 'NX')) !== 'OK') return false;
  try {
    await handle(job);
    return true;
  } finally {
    await redis.eval(RELEASE, 1, key, token);
  }
}
