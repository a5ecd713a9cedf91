import { randomBytes } from 'node:crypto';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

/**
 * A fair lock: who waits stands in a sorted set, and only the first in it may take the lock. Each waiter has a key of its own that
 * it refreshes whenever it asks; a waiter without that key has gone away.
 *
 * KEYS: lock, queue. ARGV: ticket, ttl of the lock, ttl of a waiter.
 */
const ASK = `
local lock, queue, ticket = KEYS[1], KEYS[2], ARGV[1]
redis.call('set', queue .. ':' .. ticket, '1', 'PX', ARGV[3])
if not redis.call('zscore', queue, ticket) then
  local last = redis.call('zrange', queue, -1, -1, 'WITHSCORES')
  local place = 1
  if last[2] then place = tonumber(last[2]) + 1 end
  redis.call('zadd', queue, place, ticket)
end
redis.call('pexpire', queue, ARGV[3])
local first = redis.call('zrange', queue, 0, 0)[1]
while first and first ~= ticket and redis.call('exists', queue .. ':' .. first) == 0 do
  redis.call('zrem', queue, first)
  first = redis.call('zrange', queue, 0, 0)[1]
end
if first ~= ticket or redis.call('exists', lock) == 1 then return 0 end
redis.call('set', lock, ticket, 'PX', ARGV[2])
redis.call('zrem', queue, ticket)
redis.call('del', queue .. ':' .. ticket)
return 1`;

const LEAVE = `
redis.call('zrem', KEYS[2], ARGV[1])
redis.call('del', KEYS[2] .. ':' .. ARGV[1])
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

const PROLONG = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
local left = redis.call('pttl', KEYS[1])
if left < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1`;

const ANSWER_MS = 800;
const WAITER_MS = 2_500;
const PATIENCE = 4;

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function answer(request: Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const none = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ANSWER_MS, undefined);
  });
  try {
    return await Promise.race([request, none]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

export const make: MakeLock = ({ nodes: [node] }) => ({
  async acquire(resource: string, ttlMs: number) {
    const keys = [`fair:{${resource}}`, `fair:{${resource}}:queue`] as const;
    const trust = (sentAt: number, ttl: number) => sentAt + ttl - (ttl / 100 + 2);
    const giveUpAt = Date.now() + PATIENCE * ttlMs;
    let ticket = randomBytes(16).toString('hex');
    const leave = (who: string) => answer(node.eval(LEAVE, 2, ...keys, who));

    for (;;) {
      const sentAt = Date.now();
      const reply = await answer(node.eval(ASK, 2, ...keys, ticket, ttlMs, WAITER_MS));
      if (reply === 1 && Date.now() < trust(sentAt, ttlMs)) return hold(ticket, trust(sentAt, ttlMs));
      if (reply !== 0) {
        await leave(ticket);
        ticket = randomBytes(16).toString('hex');
      }
      if (Date.now() >= giveUpAt) {
        if (reply === 0) await leave(ticket);
        return null;
      }
      await pause(80 + Math.floor(Math.random() * 60));
    }

    function hold(token: string, end: number) {
      let until = end;
      const isHeld = () => Date.now() < until;
      const release = async () => {
        until = Number.NEGATIVE_INFINITY;
        return (await leave(token)) === 1;
      };
      const extend = async (ttl: number) => {
        if (!isHeld()) return false;
        const next = trust(Date.now(), ttl);
        const reply = await answer(node.eval(PROLONG, 1, keys[0], token, ttl));
        if (reply === undefined) return false;
        if (reply !== 1 || !isHeld()) {
          await release();
          return false;
        }
        until = Math.max(until, next);
        return isHeld();
      };
      return { isHeld, release, extend };
    }
  },
});
