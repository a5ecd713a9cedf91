import { randomBytes } from 'node:crypto';
import { Redis, type Result } from 'ioredis';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    lockTake(key: string, token: string, ttl: number): Result<number, Context>;
    lockDrop(key: string, token: string): Result<number, Context>;
    lockCommit(lock: string, key: string, token: string, value: string): Result<number, Context>;
  }
}

export function createClient(url = process.env.REDIS_URL ?? 'redis://localhost:6379'): Redis {
  const redis = new Redis(url);
  redis.on('error', (e) => console.error('redis:', e.message));
  redis.defineCommand('lockTake', {
    numberOfKeys: 1,
    lua: `
      if redis.call('GET', KEYS[1]) == ARGV[1] then
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])
      end
      return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0`,
  });
  redis.defineCommand('lockDrop', {
    numberOfKeys: 1,
    lua: `return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0`,
  });
  redis.defineCommand('lockCommit', {
    numberOfKeys: 2,
    lua: `
      if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
      redis.call('SET', KEYS[2], ARGV[2])
      return 1`,
  });
  return redis;
}

export class Held implements AsyncDisposable {
  constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
  ) {}

  /** Writes `value` in the same step as checking that the lock is still ours. */
  async commit(key: string, value: string): Promise<void> {
    const ok = await this.redis.lockCommit(this.key, key, this.token, value);
    if (ok !== 1) throw new Error(`${this.key} expired before the commit was confirmed`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.redis.lockDrop(this.key, this.token);
    } catch (e) {
      console.warn(`${this.key} left to expire: ${(e as Error).message}`);
    }
  }
}

export async function acquire(redis: Redis, key: string, ttl = 5_000, tries = 60): Promise<Held> {
  const token = randomBytes(18).toString('base64url');
  const held = new Held(redis, key, token);
  try {
    for (let i = 0; i < tries; i++) {
      if ((await redis.lockTake(key, token, ttl)) === 1) return held;
      await new Promise((r) => setTimeout(r, 50 + Math.random() * 100));
    }
  } catch (e) {
    await held[Symbol.asyncDispose]();
    throw e;
  }
  throw new Error(`${key} is busy`);
}

interface Show {
  seats: Record<string, string>;
}

/** Reserves a seat; true if it is (or already was) the customer's. */
export async function reserveSeat(redis: Redis, show: string, seat: string, customer: string) {
  const key = `{show:${show}}:plan`;
  await using lock = await acquire(redis, `{show:${show}}:lock`);

  const raw = await redis.get(key);
  const plan: Show = raw ? JSON.parse(raw) : { seats: {} };
  const taken = Object.hasOwn(plan.seats, seat) ? plan.seats[seat] : undefined;
  if (taken !== undefined) return taken === customer;

  plan.seats[seat] = customer;
  await lock.commit(key, JSON.stringify(plan));
  return true;
}
