import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

type Mode = 'read' | 'write';

const CLOCK = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ttl = tonumber(ARGV[2])
`;

// KEYS: writer (string), readers (sorted set: token -> expiry)
const SCRIPTS = {
  read: `${CLOCK}
    if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
    redis.call('ZADD', KEYS[2], now + ttl, ARGV[1])
    if redis.call('PTTL', KEYS[2]) < ttl then redis.call('PEXPIRE', KEYS[2], ttl + 1000) end
    return 1`,
  write: `${CLOCK}
    local w = redis.call('GET', KEYS[1])
    if w and w ~= ARGV[1] then return 0 end
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
    if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ttl)
    return 1`,
  extendRead: `${CLOCK}
    local s = redis.call('ZSCORE', KEYS[2], ARGV[1])
    if not s or tonumber(s) <= now then return 0 end
    redis.call('ZADD', KEYS[2], 'XX', now + ttl, ARGV[1])
    if redis.call('PTTL', KEYS[2]) < ttl then redis.call('PEXPIRE', KEYS[2], ttl + 1000) end
    return 1`,
  extendWrite: `
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])`,
  release: `
    if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
    return redis.call('ZREM', KEYS[2], ARGV[1])`,
};

export interface Guard {
  /** Milliseconds for which the lock is surely still held. */
  left(): number;
  /** Starts the TTL anew; throws if the lock has been lost. Call it between the steps of long work. */
  extend(): Promise<void>;
}

export interface RwOptions {
  ttlMs?: number;
  waitMs?: number;
}

/** Many readers or one writer. Readers are preferred: a steady stream of them can keep a writer waiting. */
export function readWriteLock(client: RedisClientType, name: string, { ttlMs = 10_000, waitMs = 20_000 }: RwOptions = {}) {
  const keys = [`rw:{${name}}:w`, `rw:{${name}}:r`];
  const call = async (script: string, token: string) =>
    Number(await client.eval(script, { keys, arguments: [token, String(ttlMs)] }));

  const release = async (token: string) => {
    try {
      await call(SCRIPTS.release, token);
    } catch (err) {
      console.warn(`rw lock ${name}: not released, will expire`, err);
    }
  };

  async function hold<T>(mode: Mode, fn: (guard: Guard) => Promise<T>): Promise<T> {
    const token = randomUUID();
    const giveUp = performance.now() + waitMs;
    let since = 0;

    try {
      for (;;) {
        since = performance.now();
        if ((await call(SCRIPTS[mode], token)) === 1) break;
        if (performance.now() > giveUp) throw new Error(`rw lock ${name}: ${mode} timed out`);
        await sleep(30 + Math.random() * 70);
      }

      const left = () => Math.max(0, since + ttlMs * 0.95 - performance.now());
      const extend = async () => {
        const at = performance.now();
        const ok = await call(mode === 'read' ? SCRIPTS.extendRead : SCRIPTS.extendWrite, token);
        if (ok !== 1) {
          since = -Infinity;
          throw new Error(`rw lock ${name}: ${mode} lock lost`);
        }
        since = at;
      };

      const result = await fn({ left, extend });
      if (left() === 0) throw new Error(`rw lock ${name}: ${mode} lock ran out during the work`);
      return result;
    } finally {
      await release(token);
    }
  }

  return {
    read: <T,>(fn: (guard: Guard) => Promise<T>) => hold('read', fn),
    write: <T,>(fn: (guard: Guard) => Promise<T>) => hold('write', fn),
  };
}
