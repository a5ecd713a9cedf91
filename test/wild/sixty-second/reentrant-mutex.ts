import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

// The lock is a hash { owner, depth }, in the manner of Redisson's RLock.
const ENTER = `
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'depth', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

const LEAVE = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
if redis.call('HINCRBY', KEYS[1], 'depth', -1) <= 0 then redis.call('DEL', KEYS[1]) end
return 1`;

const RENEW = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;

export interface ReentrantOptions {
  ttl?: number;
  waitMs?: number;
  pollMs?: number;
}

export class MutexTimeoutError extends Error {}

/**
 * A mutex that may be taken again by its owner, so that a service method can
 * call another one that locks the same thing.
 */
export class ReentrantMutex {
  /** Identifies this process; unique even if containers share host name and pid. */
  private static readonly owner = `${hostname()}:${process.pid}:${randomUUID()}`;

  private readonly ttl: number;
  private readonly waitMs: number;
  private readonly pollMs: number;

  constructor(
    private readonly client: RedisClientType,
    { ttl = 15_000, waitMs = 10_000, pollMs = 75 }: ReentrantOptions = {},
  ) {
    this.ttl = ttl;
    this.waitMs = waitMs;
    this.pollMs = pollMs;
  }

  private call(script: string, key: string, ...args: string[]) {
    return this.client.eval(script, { keys: [key], arguments: [ReentrantMutex.owner, ...args] });
  }

  async run<T>(name: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `rmutex:${name}`;
    const giveUpAt = performance.now() + this.waitMs;
    let sentAt = performance.now();
    while ((await this.call(ENTER, key, String(this.ttl))) !== 1) {
      if (performance.now() > giveUpAt) throw new MutexTimeoutError(name);
      await sleep(this.pollMs + Math.random() * this.pollMs);
      sentAt = performance.now();
    }

    const ac = new AbortController();
    let done = false;
    let deadline: NodeJS.Timeout | undefined;
    const lose = () => ac.abort(new Error(`mutex ${name} lost`));
    const arm = (from: number) => {
      clearTimeout(deadline);
      deadline = setTimeout(lose, Math.max(0, from + this.ttl * 0.85 - performance.now()));
    };
    arm(sentAt);
    const heartbeat = setInterval(async () => {
      const at = performance.now();
      try {
        const ok = await this.call(RENEW, key, String(this.ttl));
        if (done || ac.signal.aborted) return;
        if (ok === 1) arm(at);
        else lose();
      } catch (err) {
        console.warn('renewing mutex %s: %s', name, (err as Error).message);
      }
    }, this.ttl / 4);

    try {
      return await fn(ac.signal);
    } finally {
      done = true;
      clearInterval(heartbeat);
      clearTimeout(deadline);
      await this.call(LEAVE, key).catch((err) => console.warn('mutex %s will expire: %s', name, err.message));
    }
  }
}

/** Stock keeping; `moveStock` and `adjust` both run as request handlers of the API. */
export class Warehouse {
  constructor(private readonly mutex: ReentrantMutex, private readonly store: any) {}

  adjust(sku: string, by: number): Promise<number> {
    return this.mutex.run(`stock:${sku}`, async (signal) => {
      const level = (await this.store.read(sku)) + by;
      if (level < 0) throw new Error(`not enough ${sku}`);
      signal.throwIfAborted();
      await this.store.write(sku, level);
      return level;
    });
  }

  recount(sku: string, count: (signal: AbortSignal) => Promise<number>): Promise<number> {
    return this.mutex.run(`stock:${sku}`, async (signal) => {
      const counted = await count(signal);
      return this.adjust(sku, counted - (await this.store.read(sku)));
    });
  }
}
