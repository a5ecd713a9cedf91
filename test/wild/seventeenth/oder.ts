import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const release = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

function cutOff<T>(work: Promise<T>, ms: number, otherwise: T): Promise<T> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(otherwise), ms);
    work
      .then(resolve, () => resolve(otherwise))
      .finally(() => clearTimeout(timer));
  });
}

export const make: MakeLock = ({ nodes }) => {
  const need = Math.floor(nodes.length / 2) + 1;

  async function claim(node: Redis, key: string, token: string, ttl: number): Promise<boolean> {
    const created = await node.set(key, token, 'NX');
    if (created !== 'OK') return false;
    return (await node.pexpire(key, ttl)) === 1;
  }

  async function attempt(key: string, ttl: number) {
    const token = randomUUID();
    let gone = false;
    const free = async (node: Redis): Promise<boolean> => {
      await node.eval(release, 1, key, token);
      return true;
    };
    const freeAll = async (): Promise<void> => {
      gone = true;
      await Promise.all(
        nodes.map(async (node) => {
          for (let tries = 0; tries < 3; tries++) if (await cutOff(free(node), ttl / 8, false)) return;
        }),
      );
    };
    const start = performance.now();
    const votes = await Promise.all(
      nodes.map((node) =>
        cutOff(
          claim(node, key, token, ttl).then((ok) => {
            if (ok && gone) free(node).catch(() => {});
            return ok;
          }),
          ttl / 4,
          false,
        ),
      ),
    );
    const end = start + ttl - ttl * 0.01 - 2;
    if (votes.filter((vote) => vote).length >= need && performance.now() < end)
      return { remaining: () => (gone ? 0 : end - performance.now()), unlock: freeAll };
    await freeAll();
    return null;
  }

  return {
    async acquire(resource, ttlMs) {
      const stop = performance.now() + 4 * ttlMs;
      while (performance.now() < stop) {
        const lock = await attempt(`${resource}.lock`, ttlMs);
        if (lock !== null) return lock;
        await sleep(ttlMs * (0.03 + Math.random() * 0.1));
      }
      return null;
    },
  };
};
