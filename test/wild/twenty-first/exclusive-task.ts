import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
redis.on('error', (err) => console.warn('redis:', err.message));

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

export class TaskBusyError extends Error {
  constructor(key: string) {
    super(`${key} is already running elsewhere`);
    this.name = 'TaskBusyError';
  }
}

interface ExclusiveOptions<A extends unknown[]> {
  key: (...args: A) => string;
  ttlMs: number;
}

type Task<A extends unknown[], R> = (signal: AbortSignal, ...args: A) => Promise<R>;

/**
 * Wraps a task so that only one call per key runs across the fleet.
 * The task gets a signal that fires at 80% of the ttl, so it always stops while it still
 * owns the key; the unlock compares the token and so can't hit a later owner.
 */
export function exclusive<A extends unknown[], R>(
  options: ExclusiveOptions<A>,
  task: Task<A, R>,
): (...args: A) => Promise<R> {
  return async (...args) => {
    const key = `exclusive:${options.key(...args)}`;
    const token = randomUUID();
    const signal = AbortSignal.timeout(Math.floor(options.ttlMs * 0.8));

    const reply = await redis.set(key, token, 'PX', options.ttlMs, 'NX');
    if (reply !== 'OK') {
      throw new TaskBusyError(key);
    }

    try {
      signal.throwIfAborted();
      return task(signal, ...args);
    } finally {
      await redis.eval(UNLOCK, 1, key, token).catch((err: unknown) => {
        console.warn(`could not unlock ${key}, it will expire`, err);
      });
    }
  };
}

export interface SearchIndex {
  pages(tenantId: string): AsyncIterable<object[]>;
  reset(tenantId: string): Promise<void>;
  append(tenantId: string, docs: object[]): Promise<void>;
}

export function makeRebuildIndex(index: SearchIndex) {
  return exclusive(
    { key: (tenantId: string) => `reindex:${tenantId}`, ttlMs: 5 * 60_000 },
    async (signal, tenantId) => {
      await index.reset(tenantId);
      let count = 0;
      for await (const docs of index.pages(tenantId)) {
        signal.throwIfAborted();
        await index.append(tenantId, docs);
        count += docs.length;
      }
      return count;
    },
  );
}
