import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Logger } from './logger';

/*
 * KEYS[1] string with the writer's token, KEYS[2] sorted set of the readers'
 * tokens by expiry. Every lease has the same length.
 */
const PRUNE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ttl = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
`;

const SCRIPTS = {
  read: {
    acquire: `${PRUNE}
      if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
      redis.call('ZADD', KEYS[2], now + ttl, ARGV[1])
      redis.call('PEXPIRE', KEYS[2], ttl + 1000)
      return 1`,
    renew: `${PRUNE}
      if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
      redis.call('ZADD', KEYS[2], 'XX', now + ttl, ARGV[1])
      redis.call('PEXPIRE', KEYS[2], ttl + 1000)
      return 1`,
    release: `return redis.call('ZREM', KEYS[2], ARGV[1])`,
  },
  write: {
    acquire: `${PRUNE}
      if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
      if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ttl) then return 1 end
      return 0`,
    renew: `
      if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
      return redis.call('PEXPIRE', KEYS[1], ARGV[2])`,
    release: `
      if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
      return redis.call('DEL', KEYS[1])`,
  },
} as const;

type Mode = keyof typeof SCRIPTS;

export class IndexLockTimeout extends Error {}
export class IndexLockLost extends Error {}

export interface Held {
  readonly signal: AbortSignal;
  check(): void;
}

export function indexLock(redis: Redis, log: Logger, index: string, ttlMs = 20_000) {
  const keys = [`{idx:${index}}:writer`, `{idx:${index}}:readers`] as const;
  const margin = Math.ceil(ttlMs * 0.1);

  const run = (script: string, token: string) => redis.eval(script, 2, ...keys, token, ttlMs) as Promise<number>;

  async function acquire(mode: Mode, waitMs: number): Promise<{ token: string; at: number }> {
    const giveUp = performance.now() + waitMs;
    do {
      const token = randomUUID();
      const at = performance.now();
      if ((await run(SCRIPTS[mode].acquire, token)) === 1) return { token, at };
      await sleep(50 + Math.random() * 150);
    } while (performance.now() < giveUp);
    throw new IndexLockTimeout(`${mode} lock on ${index} not free within ${waitMs} ms`);
  }

  async function hold<T>(mode: Mode, waitMs: number, work: (held: Held) => Promise<T>): Promise<T> {
    const { token, at } = await acquire(mode, waitMs);
    const ctl = new AbortController();
    let validUntil = at + ttlMs - margin;
    let over = false;
    let timer: NodeJS.Timeout;

    const lose = () => {
      if (!ctl.signal.aborted) ctl.abort(new IndexLockLost(`${mode} lock on ${index} lost`));
    };

    const tick = async () => {
      const sentAt = performance.now();
      if (sentAt >= validUntil) return lose();
      const guard = setTimeout(lose, validUntil - sentAt);
      try {
        const ok = await run(SCRIPTS[mode].renew, token);
        if (ok !== 1) return lose();
        validUntil = sentAt + ttlMs - margin;
      } catch (err) {
        log.warn({ err, index, mode }, 'index lock renewal failed');
      } finally {
        clearTimeout(guard);
      }
      if (!over && !ctl.signal.aborted) schedule();
    };
    const schedule = () => {
      timer = setTimeout(tick, Math.max(0, Math.min(ttlMs / 4, validUntil - performance.now())));
    };
    schedule();

    const held: Held = {
      signal: ctl.signal,
      check() {
        if (performance.now() >= validUntil) lose();
        ctl.signal.throwIfAborted();
      },
    };

    try {
      held.check();
      return await work(held);
    } finally {
      over = true;
      clearTimeout(timer!);
      await run(SCRIPTS[mode].release, token).catch((err) => log.warn({ err, index, mode }, 'index unlock failed'));
    }
  }

  return {
    read: <T>(work: (held: Held) => Promise<T>, waitMs = 5_000) => hold('read', waitMs, work),
    write: <T>(work: (held: Held) => Promise<T>, waitMs = 30_000) => hold('write', waitMs, work),
  };
}
