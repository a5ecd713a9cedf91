import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

/** Claims a door for a truck by WATCH, over a connection that `taken` gives. */
const doors = (taken: string, done = ''): string => `import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
export class Doors {
  async assign(door: string, truck: string): Promise<boolean> {
    const own = ${taken};
    try {
      await own.watch('door:' + door);
      if ((await own.get('door:' + door)) !== null) { await own.unwatch(); return false; }
      return (await own.multi().set('door:' + door, truck, 'EX', 3_600).exec()) !== null;
    } finally { ${done} }
  }
}`;

it('finds a claim that watches over the one connection of its process', async () => {
  expect(await idsOf(doors('redis'))).toEqual(['shared-watch']);
});

it('lets pass one with a connection of its own', async () => {
  expect(await idsOf(doors('redis.duplicate()', 'own.disconnect();'))).toEqual([]);
});

/** Hands out a number with each lock, and compares it by \`compared\` as it stores. */
const snapshots = (compared: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const LOCK = "if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 30000) then return 0 end return redis.call('INCR', KEYS[2])";
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const STORE = \`local stored = redis.call('HGET', KEYS[1], 'epoch')
if stored and \${'${compared}'} then return 0 end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'world', ARGV[2])
return 1\`;
export async function snapshot(redis: Redis, shard: string, world: string): Promise<void> {
  const [key, token] = ['shard:' + shard, randomUUID()];
  const epoch = Number(await redis.eval(LOCK, 2, key, key + ':epoch', token));
  if (epoch === 0) return;
  try {
    await redis.eval(STORE, 1, key + ':world', epoch, world);
  } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;

it('finds a script that compares the numbers of holders as texts, whatever these are called', async () => {
  expect(await idsOf(snapshots('stored > ARGV[1]'))).toEqual(['fencing-token']);
  expect(await idsOf(snapshots('tonumber(stored) > tonumber(ARGV[1])'))).toEqual([]);
});

/** Changes a stock by WATCH, over a connection that `taken` gives, and holds no lock. */
const stock = (taken: string, done = ''): string => `import { createClient } from 'redis';
export async function createStock(url = 'redis://127.0.0.1:6379') {
  const client = createClient({ url });
  await client.connect();
  return {
    async take(sku: string, count: number): Promise<number> {
      const own = ${taken};
      try {
        await own.watch('stock:' + sku);
        const level = Number((await own.get('stock:' + sku)) ?? 0);
        await own.multi().set('stock:' + sku, String(level - count)).exec();
        return level - count;
      } finally { ${done} }
    },
  };
}`;

it('finds updates over the one connection of its process that are lost, though nobody holds a lock', async () => {
  expect(await idsOf(stock('client'))).toEqual(['shared-watch']);
});

it('passes them where each has a connection of its own', async () => {
  expect(await idsOf(stock('await client.duplicate().connect()', 'await own.quit();'))).toEqual([]);
});

/** A semaphore that counts and adds by WATCH, over one connection. */
const SLOTS = `import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
export class Slots {
  private static readonly redis = new Redis(process.env.REDIS_URL!);
  constructor(private readonly api: string, private readonly max: number, private readonly slotMs = 60_000) {}
  private async tryTake(id: string): Promise<boolean> {
    const [redis, key] = [Slots.redis, 'slots:' + this.api];
    for (;;) {
      await redis.watch(key);
      const now = Date.now();
      if ((await redis.zcount(key, '(' + now, '+inf')) >= this.max) { await redis.unwatch(); return false; }
      const done = await redis.multi().zremrangebyscore(key, '-inf', now).zadd(key, now + this.slotMs, id).pexpire(key, 2 * this.slotMs).exec();
      if (done !== null) return true;
    }
  }
  async call<T>(request: () => Promise<T>): Promise<T> {
    const id = randomUUID();
    for (let i = 0; !(await this.tryTake(id)); i++) {
      if (i > 100) throw new Error('all slots are in use');
      await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 200));
    }
    try { return await request(); } finally { await Slots.redis.zrem('slots:' + this.api, id); }
  }
}`;

it('finds the same of a semaphore', async () => {
  expect((await audited(SLOTS, 60)).ids).toEqual(['shared-watch']);
});
