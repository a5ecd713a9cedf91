import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Kiosk: simple lock on a single redis, without Lua (EVAL is switched off on
 * our hosted plan). Releasing is optimistic: WATCH, look, MULTI/EXEC.
 */
export interface KioskLock {
  readonly resource: string;
  remaining(): number;
  isValid(): boolean;
  /** true when we still had it */
  release(): Promise<boolean>;
}

export class KioskTimeout extends Error {
  name = 'KioskTimeout';
}

function soon<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new KioskTimeout(`redis took longer than ${ms} ms`)), ms);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

export class Kiosk {
  private redis: Redis;
  private prefix: string;
  private pollMs: number;

  constructor(redis: Redis, { prefix = 'kiosk:', pollMs = 75 } = {}) {
    this.redis = redis;
    this.prefix = prefix;
    this.pollMs = pollMs;
  }

  async acquire(resource: string, ttlMs: number, waitMs = 2000): Promise<KioskLock | null> {
    const key = this.prefix + resource;
    const stop = performance.now() + waitMs;

    for (;;) {
      const token = randomUUID();
      const started = performance.now();
      let reply: 'OK' | null;
      try {
        reply = await soon(this.redis.set(key, token, 'PX', ttlMs, 'NX'), 1000);
      } catch (err) {
        // don't know whether it was set, so give it back
        this.giveBack(key, token).catch(() => {});
        throw err;
      }

      const deadline = started + ttlMs - ttlMs * 0.01 - 2;
      if (reply === 'OK') {
        if (performance.now() < deadline) return this.lock(resource, key, token, deadline);
        await this.giveBack(key, token);
      }
      if (performance.now() >= stop) return null;
      await new Promise((r) => setTimeout(r, this.pollMs * (0.5 + Math.random())));
    }
  }

  private lock(resource: string, key: string, token: string, deadline: number): KioskLock {
    let released = false;
    const remaining = () => (released ? 0 : Math.max(0, deadline - performance.now()));
    return {
      resource,
      remaining,
      isValid: () => remaining() > 0,
      release: async () => {
        if (released) return false;
        released = true;
        return soon(this.giveBack(key, token), 2000);
      },
    };
  }

  private async giveBack(key: string, token: string): Promise<boolean> {
    await this.redis.watch(key);
    const current = await this.redis.get(key);
    if (current !== token) {
      await this.redis.unwatch();
      return false;
    }
    // null when the key was touched since WATCH: expired and taken by someone else
    const result = await this.redis.multi().del(key).exec();
    return result !== null && result[0][0] === null && result[0][1] === 1;
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new Kiosk(nodes[0]);
