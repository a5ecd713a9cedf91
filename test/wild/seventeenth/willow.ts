import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

// The lock is a hash, so that operators see with HGETALL who has it and since when.
const take = `
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('hset', KEYS[1], 'owner', ARGV[1])
redis.call('hset', KEYS[1], 'since', ARGV[3])
redis.call('pexpire', KEYS[1], ARGV[2])
return 1`;

const renew = `
if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1`;

const free = `
if redis.call('hget', KEYS[1], 'owner') == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const wait = (ms: number) => new Promise<void>((next) => setTimeout(next, ms));

const inTime = <T>(work: Promise<T>, ms: number, otherwise: T): Promise<T> =>
  new Promise((done) => {
    const timer = setTimeout(() => done(otherwise), ms);
    work
      .catch(() => otherwise)
      .then((value) => {
        clearTimeout(timer);
        done(value);
      });
  });

const margin = (ttl: number) => ttl / 100 + 3;

export const make: MakeLock = ({ nodes }) => {
  const majority = Math.floor(nodes.length / 2) + 1;

  const everywhere = async (ms: number, command: (node: Redis) => Promise<unknown>): Promise<number> => {
    const replies = await Promise.all(nodes.map((node) => inTime(command(node), ms, 0 as unknown)));
    return replies.filter((reply) => reply === 1).length;
  };

  const tryOnce = async (resource: string, ttl: number) => {
    const key = `lock:{${resource}}`;
    const owner = randomBytes(16).toString('hex');
    let over = false;

    const freeAt = (node: Redis): Promise<unknown> => node.eval(free, 1, key, owner);
    const freeAll = async (): Promise<void> => {
      over = true;
      const first = await Promise.all(nodes.map((node) => inTime(freeAt(node).then(() => true), ttl / 4, false)));
      // A second round for those that did not confirm; after that the expiry has to do.
      const silent = nodes.filter((_, index) => !first[index]);
      await Promise.all(silent.map((node) => inTime(freeAt(node).then(() => true), ttl / 4, false)));
    };

    const asked = performance.now();
    const votes = await everywhere(ttl / 4, async (node) => {
      const vote = await node.eval(take, 1, key, owner, ttl, Math.round(asked));
      if (vote === 1 && over) freeAt(node).catch(() => {});
      return vote;
    });
    let end = asked + ttl - margin(ttl);
    if (votes < majority || performance.now() >= end) {
      await freeAll();
      return null;
    }

    return {
      remaining: () => (over ? 0 : end - performance.now()),
      release: freeAll,
      async extend(nextTtl: number) {
        if (over || performance.now() >= end) throw new Error(`${resource}: lock is over`);
        const from = performance.now();
        const nextEnd = from + nextTtl - margin(nextTtl);
        // A shorter lease counts from now on, whatever the nodes answer.
        end = Math.min(end, nextEnd);
        const renewed = await everywhere(nextTtl / 4, (node) => node.eval(renew, 1, key, owner, nextTtl));
        if (renewed < majority || over || performance.now() >= end) throw new Error(`${resource}: not extended`);
        end = nextEnd;
        return this;
      },
    };
  };

  return {
    async acquire(resource, ttlMs) {
      const until = performance.now() + 4 * ttlMs;
      do {
        const lock = await tryOnce(resource, ttlMs);
        if (lock) return lock;
        await wait(ttlMs / 40 + (Math.random() * ttlMs) / 10);
      } while (performance.now() < until);
      return null;
    },
  };
};
