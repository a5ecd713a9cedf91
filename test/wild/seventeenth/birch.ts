import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const del = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;

const pause = (ms: number) => new Promise<void>((go) => setTimeout(go, ms));

/** The first of: a majority of `true`, a majority that is out of reach, the time-out. */
const majorityOf = (votes: Promise<boolean>[], ms: number) =>
  new Promise<boolean>((resolve) => {
    const needed = Math.floor(votes.length / 2) + 1;
    let yes = 0;
    let no = 0;
    const timer = setTimeout(() => resolve(false), ms);
    const end = (result: boolean) => {
      clearTimeout(timer);
      resolve(result);
    };
    votes.forEach((vote) =>
      vote
        .catch(() => false)
        .then((v) => {
          if (v) yes++;
          else no++;
          if (yes >= needed) end(true);
          else if (votes.length - no < needed) end(false);
        }),
    );
  });

const validityMs = (ttl: number) => ttl - ttl * 0.01 - 2;

export const make: MakeLock = ({ nodes }) => {
  const attempt = async (key: string, ttl: number) => {
    const token = randomUUID();
    const state = { closed: false, end: 0 };

    const clear = async (node: Redis) => {
      for (const _ of [1, 2, 3]) {
        const cleared = node.eval(del, 1, key, token).then(
          () => true,
          () => false,
        );
        if (await Promise.race([cleared, pause(ttl / 6)])) return;
      }
    };
    const release = async () => {
      state.closed = true;
      await Promise.all(nodes.map(clear));
    };

    const won = await majorityOf(
      nodes.map(async (node) => {
        const ok = (await node.set(key, token, 'PX', ttl, 'NX')) === 'OK';
        if (ok && state.closed) void clear(node);
        return ok;
      }),
      ttl / 2,
    );
    if (!won) {
      void release();
      return null;
    }

    // A majority has it: the lease runs.
    state.end = performance.now() + validityMs(ttl);
    return { remaining: () => (state.closed ? 0 : Math.max(0, state.end - performance.now())), release };
  };

  return {
    acquire: async (resource, ttlMs) => {
      const patience = performance.now() + 3 * ttlMs + 300;
      let lock = await attempt(resource, ttlMs);
      while (lock === null && performance.now() < patience) {
        await pause(ttlMs * (0.04 + 0.1 * Math.random()));
        lock = await attempt(resource, ttlMs);
      }
      return lock;
    },
  };
};
