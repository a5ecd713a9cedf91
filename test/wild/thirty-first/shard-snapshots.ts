import { randomUUID } from 'node:crypto';
import Redis, { type Result } from 'ioredis';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    shardLock(lock: string, epoch: string, token: string, ttl: number): Result<number, Context>;
    shardUnlock(lock: string, token: string): Result<number, Context>;
    shardStore(snapshot: string, epoch: number, world: string, savedAt: number): Result<number, Context>;
  }
}

export class StaleEpoch extends Error {
  constructor(shard: string, epoch: number) {
    super(`shard ${shard}: snapshot of epoch ${epoch} was refused`);
  }
}

export interface World {
  tick: number;
  entities: Record<string, unknown>[];
}

export interface Simulation {
  /** Steps the world forward; at most a few hundred milliseconds per call. */
  advance(world: World): World;
}

const LOCK_TTL = 40_000;

export function snapshotStore(url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'): Redis {
  const redis = new Redis(url);

  // The lock and its epoch are handed out together. 0: somebody else simulates the shard.
  redis.defineCommand('shardLock', {
    numberOfKeys: 2,
    lua: `
      if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
      return redis.call('INCR', KEYS[2])`,
  });

  redis.defineCommand('shardUnlock', {
    numberOfKeys: 1,
    lua: `
      if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
      return 0`,
  });

  // A simulator that has been overtaken must not write over its successor.
  redis.defineCommand('shardStore', {
    numberOfKeys: 1,
    lua: `
      local stored = redis.call('HGET', KEYS[1], 'epoch')
      if stored and stored > ARGV[1] then return 0 end
      redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'world', ARGV[2], 'savedAt', ARGV[3])
      return 1`,
  });

  return redis;
}

async function whileHolding<T>(redis: Redis, shard: string, work: (epoch: number) => Promise<T>): Promise<T | null> {
  const token = randomUUID();
  const lock = `shard:{${shard}}:lock`;
  const epoch = await redis.shardLock(lock, `shard:{${shard}}:epoch`, token, LOCK_TTL);
  if (epoch === 0) return null;
  try {
    return await work(epoch);
  } finally {
    await redis.shardUnlock(lock, token).catch((e: Error) => console.warn(`${lock}: ${e.message}`));
  }
}

/**
 * Loads the last snapshot of a shard, simulates `ticks` steps and stores the result.
 * Null when another server has the shard.
 */
export function simulateShard(redis: Redis, sim: Simulation, shard: string, ticks = 20): Promise<World | null> {
  const snapshot = `shard:{${shard}}:snapshot`;
  return whileHolding(redis, shard, async (epoch) => {
    const raw = await redis.hget(snapshot, 'world');
    let world: World = raw ? JSON.parse(raw) : { tick: 0, entities: [] };
    for (let i = 0; i < Math.min(ticks, 30); i++) {
      world = sim.advance(world);
      await new Promise((next) => setImmediate(next));
    }
    const stored = await redis.shardStore(snapshot, epoch, JSON.stringify(world), Date.now());
    if (stored !== 1) throw new StaleEpoch(shard, epoch);
    return world;
  });
}
