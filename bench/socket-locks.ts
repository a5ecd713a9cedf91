import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis as UpstashRedis } from '@upstash/redis';
import type { Redis, RedisOptions } from 'ioredis';
import type { createClient } from 'redis';
import type { HeldLock, LockUnderTest, MakeLock, NodeAddress } from '../libraries/testing.js';

/** What a lock needs of one node, whatever client it has for it. */
interface Commands {
  take(key: string, token: string, ttlMs: number): Promise<boolean>;
  give(key: string, token: string): Promise<unknown>;
}

const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const TIMEOUT_MS = 300;

type NodeRedis = Pick<ReturnType<typeof createClient>, 'set' | 'eval' | 'del'>;

/** How a lock is released: only where it is one's own, or whosever it is. */
type Release = 'own' | 'any';

const require = createRequire(import.meta.url);

/** A node by ioredis, or by a client made from it. */
function byIoredis(module: string, release: Release): (address: NodeAddress) => Commands {
  return ({ url }) => {
    const { Redis: Client }: { Redis: new (url: string, options: RedisOptions) => Redis } = require(module);
    const redis = new Client(url, { commandTimeout: TIMEOUT_MS });
    redis.on('error', () => {});
    return {
      take: async (key, token, ttlMs) => (await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK',
      give: (key, token) => (release === 'own' ? redis.eval(UNLOCK, 1, key, token) : redis.del(key)),
    };
  };
}

/**
 * A node by node-redis. Its commands wait as long as it is not connected, and so get a time-out. Copies of one client are
 * made in a hundredth of the time that others take.
 */
function byNodeRedis(module: string, release: Release): (address: NodeAddress) => Commands {
  const { createClient: create }: { createClient: typeof createClient } = require(module);
  const client = create();
  return ({ host, port }) => {
    const copy = client.duplicate({ socket: { host, port } });
    copy.on('error', () => {});
    copy.connect().catch(() => {});
    return commandsOf(copy, release);
  };
}

function commandsOf(redis: NodeRedis, release: Release): Commands {
  return {
    take: async (key, token, ttlMs) =>
      (await inTime(redis.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: ttlMs } }))) === 'OK',
    give: (key, token) =>
      inTime(release === 'own' ? redis.eval(UNLOCK, { keys: [key], arguments: [token] }) : redis.del(key)),
  };
}

/** A node by the REST client of Upstash. */
function byUpstash(module: string, release: Release): (address: NodeAddress) => Commands {
  const { Redis: Client }: { Redis: typeof UpstashRedis } = require(module);
  return ({ restUrl }) => {
    const signal = (): AbortSignal => AbortSignal.timeout(TIMEOUT_MS);
    const redis = new Client({ url: restUrl, token: 'any', enableTelemetry: false, signal });
    return {
      take: async (key, token, ttlMs) => (await redis.set(key, token, { nx: true, px: ttlMs })) === 'OK',
      give: (key, token) => (release === 'own' ? redis.eval(UNLOCK, [key], [token]) : redis.del(key)),
    };
  };
}

function inTime<T>(promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('no answer')), TIMEOUT_MS);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** A lock on a majority, as redis.io has it. */
class MajorityLock implements LockUnderTest {
  private readonly nodes: readonly Commands[];

  constructor(nodes: readonly Commands[]) {
    this.nodes = nodes;
  }

  async acquire(key: string, ttlMs: number): Promise<HeldLock | null> {
    for (let attempt = 0; attempt < 3; attempt++) {
      if (attempt > 0) await sleep(20 + Math.random() * 50);
      const held = await this.attempt(key, ttlMs);
      if (held !== null) return held;
    }
    return null;
  }

  private async attempt(key: string, ttlMs: number): Promise<HeldLock | null> {
    const token = crypto.randomUUID();
    const end = performance.now() + ttlMs - ttlMs / 100 - 2;
    const votes = await Promise.allSettled(this.nodes.map((node) => node.take(key, token, ttlMs)));
    const remaining = (): number => end - performance.now();
    const release = (): Promise<unknown> => Promise.allSettled(this.nodes.map((node) => node.give(key, token)));
    const granted = votes.filter((it) => it.status === 'fulfilled' && it.value).length;
    if (granted > this.nodes.length / 2 && remaining() > 0) return { remaining, release };
    await release();
    return null;
  }
}

/** The same, made from clients of node-redis: what the guide shows is tried with it (`test/documents.long.test.ts`). */
export class NodeRedisLock extends MajorityLock {
  constructor(clients: readonly NodeRedis[]) {
    super(clients.map((client) => commandsOf(client, 'own')));
  }
}

/** Clients as they are on npm, each below the same lock. */
export const SOCKET_CLIENTS: Readonly<Record<string, (release: Release) => MakeLock>> = {
  'ioredis 5': locksBy(byIoredis, 'ioredis'),
  'ioredis 6': locksBy(byIoredis, 'ioredis6'),
  iovalkey: locksBy(byIoredis, 'iovalkey'),
  'node-redis 5': locksBy(byNodeRedis, 'redis5'),
  'node-redis 6': locksBy(byNodeRedis, 'redis'),
  Upstash: locksBy(byUpstash, '@upstash/redis'),
};

function locksBy(by: typeof byIoredis, module: string): (release: Release) => MakeLock {
  return (release) =>
    ({ addresses }) =>
      new MajorityLock(addresses.map(by(module, release)));
}
