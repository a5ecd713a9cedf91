import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const DEL_IF_MINE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const PEXPIRE_IF_MINE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 1
end
return 0`;

const ROUND_MS = 500;

/** Waits for `answer`, but not longer than until `at`. */
async function until<T>(at: number, answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('late')), Math.max(0, at - Date.now()));
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Sends a request to all nodes at once, then counts those that answered as expected. */
async function count(nodes: readonly Redis[], expected: unknown, send: (node: Redis) => Promise<unknown>) {
  const end = Date.now() + ROUND_MS;
  const answers = nodes.map(send);
  let votes = 0;
  for (const answer of answers) {
    try {
      if ((await until(end, answer)) === expected) votes += 1;
    } catch {
      // This node is down or slow: the others decide.
    }
  }
  return votes;
}

export const make: MakeLock = ({ nodes }) => {
  const majority = Math.ceil((nodes.length + 1) / 2);
  const sure = (from: number, ttlMs: number) => Math.floor(from + ttlMs * 0.99) - 2;

  const acquireOnce = async (key: string, ttlMs: number) => {
    const token = randomUUID();
    let end = sure(Date.now(), ttlMs);

    const lock = {
      isHeld: () => Date.now() < end,
      async release() {
        end = 0;
        await count(nodes, 1, (node) => node.eval(DEL_IF_MINE, 1, key, token));
      },
      async extend(ms: number) {
        const from = Date.now();
        if (from >= end) return false;
        const votes = await count(nodes, 1, (node) => node.eval(PEXPIRE_IF_MINE, 1, key, token, ms));
        if (!lock.isHeld()) {
          await lock.release();
          return false;
        }
        if (votes < majority) return false;
        end = Math.max(end, sure(from, ms));
        return true;
      },
    };

    const votes = await count(nodes, 'OK', (node) => node.set(key, token, 'PX', ttlMs, 'NX'));
    if (votes >= majority && lock.isHeld()) return lock;
    await lock.release();
    return null;
  };

  return {
    async acquire(resource: string, ttlMs: number) {
      let attempts = 28;
      while (attempts > 0) {
        const lock = await acquireOnce(resource, ttlMs);
        if (lock !== null) return lock;
        attempts -= 1;
        await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 130));
      }
      return null;
    },
  };
};
