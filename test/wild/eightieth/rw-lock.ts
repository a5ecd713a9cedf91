import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import Redis, { type Result, type Callback } from 'ioredis';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    rwRead(r: string, w: string, q: string, id: string, ttl: number, cb?: Callback<number>): Result<number, Context>;
    rwWrite(r: string, w: string, q: string, id: string, ttl: number, cb?: Callback<number>): Result<number, Context>;
    rwUnread(r: string, id: string, cb?: Callback<number>): Result<number, Context>;
    rwUnwrite(w: string, id: string, cb?: Callback<number>): Result<number, Context>;
  }
}

const NOW = `local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)`;

export function install(redis: Redis): Redis {
  redis.defineCommand('rwRead', {
    numberOfKeys: 3,
    lua: `${NOW}
      if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
      local ttl = tonumber(ARGV[2])
      redis.call('ZADD', KEYS[1], now + ttl, ARGV[1])
      if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ttl) end
      return 1`,
  });
  redis.defineCommand('rwWrite', {
    numberOfKeys: 3,
    lua: `${NOW}
      redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
      if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('ZCARD', KEYS[1]) > 0 then
        redis.call('SET', KEYS[3], ARGV[1], 'PX', 1000)
        return 0
      end
      redis.call('DEL', KEYS[3])
      redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
      return 1`,
  });
  redis.defineCommand('rwUnread', { numberOfKeys: 1, lua: `return redis.call('ZREM', KEYS[1], ARGV[1])` });
  redis.defineCommand('rwUnwrite', {
    numberOfKeys: 1,
    lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
  });
  return redis;
}

type Mode = 'read' | 'write';

export class RwLock {
  readonly #r: string;
  readonly #w: string;
  readonly #q: string;

  constructor(private readonly redis: Redis, name: string, private readonly ttl = 30_000) {
    this.#r = `rw:{${name}}:readers`;
    this.#w = `rw:{${name}}:writer`;
    this.#q = `rw:{${name}}:queued`;
  }

  async with<T>(mode: Mode, fn: (signal: AbortSignal) => Promise<T>, waitMs = 10_000): Promise<T> {
    const id = randomUUID();
    const end = performance.now() + waitMs;
    for (;;) {
      const asked = performance.now();
      const got =
        mode === 'read'
          ? await this.redis.rwRead(this.#r, this.#w, this.#q, id, this.ttl)
          : await this.redis.rwWrite(this.#r, this.#w, this.#q, id, this.ttl);
      if (got === 1) {
        const left = Math.floor(this.ttl * 0.6 - (performance.now() - asked));
        try {
          if (left <= 0) throw new Error('lock reply came too late');
          return await fn(AbortSignal.timeout(left));
        } finally {
          const undo = mode === 'read' ? this.redis.rwUnread(this.#r, id) : this.redis.rwUnwrite(this.#w, id);
          await undo.catch((err: Error) => console.warn('rw unlock:', err.message));
        }
      }
      if (performance.now() > end) throw new Error(`no ${mode} lock within ${waitMs} ms`);
      await delay(40 + Math.random() * 60);
    }
  }
}

const redis = install(new Redis(process.env.REDIS_URL!, {
  commandTimeout: 2_000,
  connectTimeout: 3_000,
  maxRetriesPerRequest: 1,
  autoResendUnfulfilledCommands: false,
}));
const flagsLock = new RwLock(redis, 'flags');

export const readFlags = (env: string) =>
  flagsLock.with('read', async () => {
    const [flags, segments] = await Promise.all([redis.hgetall(`flags:${env}`), redis.hgetall(`segments:${env}`)]);
    return { flags, segments };
  });

export const replaceFlags = (env: string, flags: Record<string, string>, segments: Record<string, string>) =>
  flagsLock.with('write', async (signal) => {
    signal.throwIfAborted();
    const tx = redis.multi().del(`flags:${env}`, `segments:${env}`);
    if (Object.keys(flags).length) tx.hset(`flags:${env}`, flags);
    if (Object.keys(segments).length) tx.hset(`segments:${env}`, segments);
    for (const [err] of (await tx.exec()) ?? []) if (err) throw err;
  });
