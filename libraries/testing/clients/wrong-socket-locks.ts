import { createRequire } from 'node:module';
import type { Redis as UpstashRedis } from '@upstash/redis';
import type { Redis } from 'ioredis';
import type { createClient } from 'redis';
import type { LockUnderTest, MakeLock } from '../../testing.js';

const require = createRequire(import.meta.url);

/** One node, asked by a client that opens its own connection. Wrong on purpose: it releases whatever lock is there. */
interface Commands {
  take(key: string, token: string, ttlMs: number): Promise<unknown>;
  drop(key: string): Promise<unknown>;
}

function byIoredis(module: string): MakeLock {
  const { Redis: Client }: { Redis: new (url: string) => Redis } = require(module);
  return ({ addresses: [{ url }] }) => {
    const redis = new Client(url).on('error', () => {});
    return lockOf({
      take: (key, token, ttlMs) => redis.set(key, token, 'PX', ttlMs, 'NX'),
      drop: (key) => redis.del(key),
    });
  };
}

function byNodeRedis(module: string): MakeLock {
  const { createClient: create }: { createClient: typeof createClient } = require(module);
  return ({ addresses: [{ url }] }) => {
    const redis = create({ url }).on('error', () => {});
    redis.connect().catch(() => {});
    return lockOf({
      take: (key, token, ttlMs) => redis.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: ttlMs } }),
      drop: (key) => redis.del(key),
    });
  };
}

function byUpstash(): MakeLock {
  const { Redis: Client }: { Redis: typeof UpstashRedis } = require('@upstash/redis');
  return ({ addresses: [{ restUrl }] }) => {
    const redis = new Client({ url: restUrl, token: 'any', enableTelemetry: false });
    return lockOf({
      take: (key, token, ttlMs) => redis.set(key, token, { nx: true, px: ttlMs }),
      drop: (key) => redis.del(key),
    });
  };
}

function lockOf(node: Commands): LockUnderTest {
  return {
    async acquire(key, ttlMs) {
      const validUntil = performance.now() + ttlMs - ttlMs / 100 - 2;
      const isTaken = (await node.take(key, crypto.randomUUID(), ttlMs)) !== 'OK';
      return isTaken ? null : { remaining: () => validUntil - performance.now() };
    },
    release: (_held, key) => node.drop(key),
  };
}

/** Locks that delete whatever is there, each above another client; the line that does so says `drop: `. */
export const WRONG_SOCKET_LOCKS: Readonly<Record<string, MakeLock>> = {
  'ioredis 5': byIoredis('ioredis'),
  'ioredis 6': byIoredis('ioredis6'),
  iovalkey: byIoredis('iovalkey'),
  'node-redis 5': byNodeRedis('redis5'),
  'node-redis 6': byNodeRedis('redis'),
  Upstash: byUpstash(),
};
