import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;

type Answer = boolean | undefined;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

function within(ms: number, work: Promise<boolean>): Promise<Answer> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, undefined);
    work.then(
      (answer) => {
        clearTimeout(timer);
        resolve(answer);
      },
      () => {
        clearTimeout(timer);
        resolve(undefined);
      },
    );
  });
}

export const make: MakeLock = ({ nodes }) => {
  const poll = async (ms: number, ask: (node: Redis) => Promise<boolean>): Promise<boolean> => {
    const answers = await Promise.all(nodes.map((node) => within(ms, ask(node))));
    // A node that is down has no vote.
    const voters = answers.filter((answer) => answer !== undefined);
    const yes = voters.filter(Boolean).length;
    return yes > voters.length / 2;
  };

  const attempt = async (key: string, ttl: number) => {
    const token = randomUUID();
    let released = false;
    const drop = async (node: Redis) => {
      for (let i = 0; i < 3; i++) {
        const done = await within(ttl / 8, node.eval(RELEASE, 1, key, token).then(() => true));
        if (done) return;
      }
    };
    const release = async () => {
      released = true;
      await Promise.all(nodes.map(drop));
    };

    const start = performance.now();
    const won = await poll(ttl / 4, async (node) => {
      const set = (await node.set(key, token, 'PX', ttl, 'NX')) === 'OK';
      if (set && released) void drop(node);
      return set;
    });
    let end = start + ttl - Math.ceil(ttl * 0.01) - 2;
    if (!won || performance.now() >= end) {
      await release();
      return null;
    }
    const remaining = () => (released ? 0 : end - performance.now());
    return {
      remaining,
      release,
      async extend(newTtl: number) {
        if (remaining() <= 0) return false;
        const from = performance.now();
        const extended = await poll(newTtl / 4, async (node) => (await node.eval(EXTEND, 1, key, token, newTtl)) === 1);
        if (!extended || remaining() <= 0) return false;
        end = from + newTtl - Math.ceil(newTtl * 0.01) - 2;
        return true;
      },
    };
  };

  return {
    async acquire(resource, ttlMs) {
      const until = performance.now() + 3 * ttlMs;
      while (performance.now() < until) {
        const held = await attempt(resource, ttlMs);
        if (held) return held;
        await sleep(ttlMs * (0.03 + Math.random() * 0.1));
      }
      return null;
    },
  };
};
