import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

/** A small lock for one Redis. No scripts, so it works where EVAL is forbidden by ACL. */
export interface Options {
  prefix?: string;
  retries?: number;
  retryMs?: number;
}

class Timeout extends Error {
  constructor(what: string) {
    super(`${what}: timed out`);
    this.name = 'Timeout';
  }
}

async function limit<T>(what: string, ms: number, command: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Timeout(what)), ms);
  });
  try {
    return await Promise.race([command, late]);
  } finally {
    clearTimeout(timer);
  }
}

function locker(redis: Redis, { prefix = 'lock:', retries = 8, retryMs = 40 }: Options = {}) {
  async function remove(key: string, token: string, ms: number): Promise<boolean> {
    try {
      const owner = await limit('get', ms, redis.get(key));
      if (owner !== token) return false;
      return (await limit('del', ms, redis.del(key))) === 1;
    } catch {
      // Redis is away: the key has a TTL.
      return false;
    }
  }

  async function acquire(resource: string, ttl: number) {
    const key = prefix + resource;
    const ms = Math.max(20, ttl / 3);
    for (let i = 0; i <= retries; i++) {
      const token = randomUUID();
      const end = performance.now() + ttl - (ttl * 0.01 + 2);
      let answer: unknown;
      try {
        answer = await limit('set', ms, redis.set(key, token, 'PX', ttl, 'NX'));
      } catch {
        answer = undefined;
      }
      if (answer === 'OK' && performance.now() < end) {
        let released = false;
        return {
          remaining: () => (released ? 0 : Math.max(0, end - performance.now())),
          release: async () => {
            if (released) return;
            released = true;
            await remove(key, token, ms);
          },
        };
      }
      if (answer !== null) await remove(key, token, ms);
      await new Promise((resolve) => setTimeout(resolve, retryMs + Math.random() * retryMs));
    }
    return null;
  }

  return { acquire };
}

export const make: MakeLock = ({ nodes }) => locker(nodes[0]);
