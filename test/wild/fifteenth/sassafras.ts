import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

// A lock is a hash { holder, mode }, so that an operator sees who has it.

const LOCK = `
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('hset', KEYS[1], 'holder', ARGV[1], 'mode', 'exclusive')
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
`;

const UNLOCK = `
if redis.call('hget', KEYS[1], 'holder') == ARGV[1] then
  redis.call('del', KEYS[1])
  return 1
end
return 0
`;

const TOUCH = `
if redis.call('hget', KEYS[1], 'holder') == ARGV[1] then
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 1
end
return 0
`;

interface Held {
  readonly nodes: readonly Redis[];
  readonly key: string;
  readonly holder: string;
  validUntil: number;
}

/** On how many nodes a script returned 1 within the time. */
async function poll(nodes: readonly Redis[], ms: number, script: string, key: string, args: (string | number)[]) {
  const tooLate = new AbortController();
  let agreed = 0;
  const asked = nodes.map(async (node) => {
    try {
      if ((await node.eval(script, 1, key, ...args)) === 1 && !tooLate.signal.aborted) agreed += 1;
    } catch {
      // No vote.
    }
  });
  const timeout = sleep(ms, undefined, { signal: tooLate.signal }).catch(() => {});
  await Promise.race([Promise.all(asked), timeout]);
  tooLate.abort();
  return agreed;
}

const isMajority = (count: number, nodes: readonly Redis[]) => count > nodes.length / 2;

const horizon = (sentAt: number, ttlMs: number) => sentAt + ttlMs - Math.ceil(ttlMs / 100) - 2;

async function attempt(nodes: readonly Redis[], key: string, ttlMs: number): Promise<Held | null> {
  const held: Held = { nodes, key, holder: randomUUID(), validUntil: horizon(Date.now(), ttlMs) };
  const agreed = await poll(nodes, Math.min(600, ttlMs / 4), LOCK, key, [held.holder, ttlMs]);
  if (isMajority(agreed, nodes) && Date.now() < held.validUntil) return held;
  await giveBack(held);
  return null;
}

async function giveBack(held: Held): Promise<void> {
  held.validUntil = 0;
  await poll(held.nodes, 400, UNLOCK, held.key, [held.holder]);
}

async function touch(held: Held, ttlMs: number): Promise<boolean> {
  const sentAt = Date.now();
  if (sentAt >= held.validUntil) return false;
  const agreed = await poll(held.nodes, Math.min(600, ttlMs / 4), TOUCH, held.key, [held.holder, ttlMs]);
  if (Date.now() >= held.validUntil) {
    await giveBack(held);
    return false;
  }
  if (!isMajority(agreed, held.nodes)) return false;
  held.validUntil = Math.max(held.validUntil, horizon(sentAt, ttlMs));
  return true;
}

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    const until = Date.now() + 3 * ttlMs;
    do {
      const held = await attempt(nodes, `hash:${resource}`, ttlMs);
      if (held !== null) return held;
      await sleep(Math.round(50 + Math.random() * 200));
    } while (Date.now() < until);
    return null;
  },
  release: (held) => giveBack(held as Held),
  async extend(held, ttlMs) {
    if (!(await touch(held as Held, ttlMs))) throw new Error('not extended');
  },
});
