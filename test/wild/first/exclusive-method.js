import { randomUUID } from 'node:crypto';
import Redis from 'ioredis6';

const redis = new Redis({ host: 'localhost', port: 6379, commandTimeout: 1000, maxRetriesPerRequest: 1 });
redis.on('error', () => {});

const UNLOCK = `return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0`;

/**
 * Wraps an async function so that one call at a time runs across all processes.
 *
 *   const rebuildIndex = exclusive('search-index', { ttl: 60_000 })(async ({ signal }, shard) => { ... });
 *
 * A call that finds the lock taken resolves to `undefined`. The function is handed a signal; it aborts when 90 % of the
 * TTL are over, and the call rejects then.
 */
export const exclusive =
  (name, { ttl = 10_000 } = {}) =>
  (fn) =>
  async (...args) => {
    const key = `exclusive:${name}`;
    const token = randomUUID();
    const unlock = () => redis.eval(UNLOCK, 1, key, token).catch(() => 0);
    const startedAt = performance.now();
    const answer = await redis.set(key, token, 'PX', ttl, 'NX').catch(async (error) => {
      await unlock();
      throw error;
    });
    if (answer !== 'OK') return undefined;

    const controller = new AbortController();
    const left = ttl * 0.9 - (performance.now() - startedAt);
    if (left <= 0) {
      await unlock();
      return undefined;
    }
    let timer;
    const timeout = new Promise((_, reject) => {
      timer = setTimeout(() => {
        controller.abort();
        reject(new Error(`${name} ran out of time`));
      }, left);
    });
    // The lock is kept until the function has really ended, also when the caller has been told already.
    const running = (async () => fn({ signal: controller.signal }, ...args))().finally(async () => {
      clearTimeout(timer);
      await unlock();
    });
    return Promise.race([running, timeout]);
  };
