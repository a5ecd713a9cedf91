// lib/mutex.ts
import { Redis } from '@upstash/redis';

export interface MutexOptions {
  /** lease in milliseconds */
  ttl?: number;
  retries?: number;
  retryDelay?: number;
}

export class MutexTimeoutError extends Error {
  constructor(readonly resource: string) {
    super(`Could not lock "${resource}"`);
    this.name = 'MutexTimeoutError';
  }
}

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * Tiny mutex for serverless functions on top of Upstash.
 *
 *   const mutex = createMutex(Redis.fromEnv(), { ttl: 20_000 });
 *   await mutex.run(`user:${id}`, async (signal) => { ... });
 */
export function createMutex(redis: Redis, options: MutexOptions = {}) {
  const { ttl = 20_000, retries = 20, retryDelay = 150 } = options;
  const keyOf = (resource: string) => `mutex:${resource}`;

  async function acquire(resource: string): Promise<string> {
    const token = `t-${crypto.randomUUID()}`;
    for (let attempt = 0; attempt <= retries; attempt++) {
      const reply = await redis.set(keyOf(resource), token, { nx: true, px: ttl });
      if (reply === 'OK') return token;
      await wait(retryDelay + Math.random() * retryDelay);
    }
    throw new MutexTimeoutError(resource);
  }

  /** Only removes the lock while it is still ours. */
  async function release(resource: string, token: string): Promise<boolean> {
    const key = keyOf(resource);
    const owner = await redis.get<string>(key);
    if (owner !== token) return false;
    await redis.del(key);
    return true;
  }

  async function run<T>(resource: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const startedAt = Date.now();
    const token = await acquire(resource);
    const waited = Date.now() - startedAt;
    // stop the work before the lease is over
    const signal = AbortSignal.timeout(Math.floor(ttl * 0.75));
    try {
      return await work(signal);
    } finally {
      const released = await release(resource, token).catch(() => false);
      if (!released) console.warn(`mutex ${resource}: not released by us (waited ${waited} ms)`);
    }
  }

  return { acquire, release, run };
}
