import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/*
 * Slots: a counting semaphore on a sorted set (member = holder, score = when
 * its time is up, on the clock of the server). We ship it with one slot per
 * resource, which makes it a lock. The key itself expires after the last slot.
 */
const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
redis.call('PEXPIRE', KEYS[1], tonumber(last[2]) - now + 1000)
return 1`;

const PROLONG = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= now then return 0 end
if tonumber(ends) < now + tonumber(ARGV[2]) then
  redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
end
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
redis.call('PEXPIRE', KEYS[1], tonumber(last[2]) - now + 1000)
return 1`;

const GIVE = `return redis.call('ZREM', KEYS[1], ARGV[1])`;

const SLOTS = 1;
const REPLY_MS = 1500;

export type Slot = {
  isValid: () => boolean;
  remaining: () => number;
  extend: (ttlMs: number) => Promise<boolean>;
  release: () => Promise<void>;
};

export const make = ({ nodes }: { nodes: Redis[] }) => {
  const [redis] = nodes;

  const run = async (script: string, key: string, ...args: (string | number)[]) => {
    const stop = new AbortController();
    const late = sleep(REPLY_MS, undefined, { signal: stop.signal }).then(
      () => {
        throw new Error('slot: no reply');
      },
      () => undefined,
    );
    try {
      return await Promise.race([redis.eval(script, 1, key, ...args), late]);
    } finally {
      stop.abort();
    }
  };

  const whole = (ms: number) => {
    if (!Number.isInteger(ms) || ms <= 0) throw new RangeError('slot: ttl must be whole milliseconds');
  };

  // the server counts whole milliseconds and its clock is not ours
  const worth = (ttlMs: number) => ttlMs - Math.ceil(ttlMs / 100) - 3;

  async function acquire(resource: string, ttlMs: number, waitMs = 2000): Promise<Slot> {
    whole(ttlMs);
    const key = `slots:${resource}`;
    const giveUp = performance.now() + waitMs;
    for (;;) {
      const me = randomBytes(12).toString('hex');
      const from = performance.now();
      let got: unknown;
      try {
        got = await run(TAKE, key, me, ttlMs, SLOTS);
      } catch (err) {
        redis.eval(GIVE, 1, key, me).catch(() => undefined);
        throw err;
      }
      let ends = from + worth(ttlMs);
      if (got === 1 && performance.now() < ends) {
        let given = false;
        const remaining = () => (given ? 0 : Math.max(0, ends - performance.now()));
        return {
          remaining,
          isValid: () => remaining() > 0,
          extend: async (ms) => {
            whole(ms);
            if (remaining() === 0) return false;
            const asked = performance.now();
            if ((await run(PROLONG, key, me, ms)) !== 1) return false;
            ends = Math.max(ends, asked + worth(ms));
            return remaining() > 0;
          },
          release: async () => {
            if (given) return;
            given = true;
            await run(GIVE, key, me);
          },
        };
      }
      if (got === 1) await run(GIVE, key, me);
      if (performance.now() >= giveUp) throw new Error(`slot: ${resource} is occupied`);
      await sleep(25 + Math.random() * 75);
    }
  }

  return { acquire };
};
