import type { Redis } from '@upstash/redis';
import type { MakeLock } from '../lock-under-test.js';
import { leftOf, noting, require, unlessOver } from './connected.js';
import { LEFT_TO_THE_TTL, type Library, RETRIES, RETRY_DELAY_MS } from './library.js';

interface Lock {
  acquire(): Promise<boolean>;
  extend(byMs: number): Promise<boolean>;
  release(): Promise<boolean>;
}

type LockClass = new (config: { id: string; redis: Redis; lease: number; retry: object }) => Lock;
type RedisClass = new (options: { url: string; token: string; enableTelemetry: boolean }) => Redis;

/** Extensions add to what is left, as it says. */
class Held {
  private readonly lock: Lock;
  private readonly ttlMs: number;
  private readonly since: number;
  readonly remaining: () => number;

  constructor(lock: Lock, ttlMs: number, since: number) {
    this.lock = lock;
    this.ttlMs = ttlMs;
    this.since = since;
    this.remaining = leftOf(ttlMs, since);
  }

  async extend(byMs: number): Promise<Held | false> {
    return (await this.lock.extend(byMs)) && new Held(this.lock, this.ttlMs + byMs, this.since);
  }

  release(): Promise<boolean> {
    return this.lock.release();
  }
}

async function load(): Promise<MakeLock> {
  const { Lock: LockOf }: { Lock: LockClass } = require('@upstash/lock');
  const { Redis: Client }: { Redis: RedisClass } = require('@upstash/redis');
  const retry = { attempts: RETRIES + 1, delay: RETRY_DELAY_MS };
  return ({ addresses: [{ restUrl: url }] }) => ({
    async acquire(id, lease): Promise<Held | null> {
      const { client: redis, sentAt } = noting(new Client({ url, token: 'any', enableTelemetry: false }));
      const lock = new LockOf({ id, redis, lease, retry });
      return (await lock.acquire()) ? unlessOver(new Held(lock, lease, sentAt())) : null;
    },
  });
}

/** The lock of Upstash, on its REST client. */
export const UPSTASH_LOCK: Library = {
  id: 'upstash-lock',
  package: '@upstash/lock',
  version: '0.2.1',
  client: '@upstash/redis@1.39.0',
  belief:
    'it says nothing: for a lease from when the SET that was granted was sent, and what it was extended by; or until release()',
  extendsItself: false,
  nodes: 1,
  notPromised: LEFT_TO_THE_TTL,
  load,
};
