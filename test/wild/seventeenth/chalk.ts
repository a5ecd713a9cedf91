import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** An answer that comes later than `ms` counts as "no", and so does an error. */
const answerOf = (work: Promise<boolean>, ms: number): Promise<boolean> =>
  new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms);
    work
      .then(resolve)
      .catch(() => resolve(false))
      .finally(() => clearTimeout(timer));
  });

const createLock = (nodes: Redis[], key: string, ttl: number) => {
  const token = randomUUID();
  const quorum = Math.floor(nodes.length / 2) + 1;
  let end = 0;
  let released = false;

  const all = async (ms: number, ask: (node: Redis) => Promise<boolean>): Promise<number> => {
    const answers = await Promise.all(nodes.map((node) => answerOf(ask(node), ms)));
    return answers.filter((answer) => answer).length;
  };
  const unlock = async (node: Redis): Promise<boolean> => {
    await node.eval(UNLOCK, 1, key, token);
    return true;
  };
  const endFrom = (start: number, ms: number) => start + ms - Math.ceil(ms * 0.01) - 2;

  return {
    async lock(): Promise<boolean> {
      const start = performance.now();
      // After its TTL an answer is of no use any more.
      const votes = await all(ttl, async (node) => {
        const ok = (await node.set(key, token, 'PX', ttl, 'NX')) === 'OK';
        if (ok && released) unlock(node).catch(() => {});
        return ok;
      });
      end = endFrom(start, ttl);
      return votes >= quorum && performance.now() < end;
    },
    remaining: () => (released ? 0 : end - performance.now()),
    async extend(ms: number): Promise<boolean> {
      if (released || performance.now() >= end) return false;
      const start = performance.now();
      const votes = await all(ms / 4, async (node) => (await node.eval(EXTEND, 1, key, token, ms)) === 1);
      if (votes < quorum || released || performance.now() >= end) return false;
      end = endFrom(start, ms);
      return true;
    },
    async release(): Promise<void> {
      released = true;
      if ((await all(ttl / 8, unlock)) < nodes.length) await all(ttl / 8, unlock);
    },
  };
};

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    const giveUp = performance.now() + 3 * ttlMs;
    do {
      const lock = createLock(nodes, resource, ttlMs);
      if (await lock.lock()) return lock;
      await lock.release();
      await sleep(ttlMs * (0.03 + Math.random() * 0.1));
    } while (performance.now() < giveUp);
    return null;
  },
});
