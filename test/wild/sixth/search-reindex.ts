import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const EXTEND_SCRIPT = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
  else
    return 0
  end
`;

const RELEASE_SCRIPT = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  else
    return 0
  end
`;

const TTL = 15_000;

/**
 * A reindex takes anything from a second to an hour, so the lock is short and a watchdog
 * keeps it alive for as long as `task` runs.
 */
async function withWatchdog<T>(key: string, task: () => Promise<T>): Promise<T | null> {
  const token = randomUUID();
  const acquired = await redis.set(key, token, 'PX', TTL, 'NX');
  if (!acquired) return null;

  const watchdog = setInterval(() => {
    redis
      .eval(EXTEND_SCRIPT, 1, key, token, TTL)
      .then((extended) => {
        if (extended === 0) {
          console.warn(`watchdog: ${key} could not be extended`);
          clearInterval(watchdog);
        }
      })
      .catch((err) => console.error(`watchdog: ${key}`, err));
  }, TTL / 3);

  try {
    return await task();
  } finally {
    clearInterval(watchdog);
    await redis.eval(RELEASE_SCRIPT, 1, key, token).catch(() => undefined);
  }
}

export interface Index {
  batches(): AsyncIterable<unknown[]>;
  write(docs: unknown[]): Promise<void>;
  swap(): Promise<void>;
}

export async function reindex(name: string, index: Index): Promise<boolean> {
  const done = await withWatchdog(`reindex:${name}`, async () => {
    for await (const docs of index.batches()) {
      await index.write(docs);
    }
    await index.swap();
    return true;
  });
  return done ?? false;
}
