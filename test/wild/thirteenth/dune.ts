import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const lua = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

const DRIFT_FACTOR = 0.01;
const MAX_RETRIES = 6;

function withTimeout<T>(p: Promise<T>, ms: number): Promise<T> {
  let t: NodeJS.Timeout;
  return Promise.race([
    p,
    new Promise<never>((_, reject) => {
      t = setTimeout(() => reject(new Error('timeout')), ms);
    }),
  ]).finally(() => clearTimeout(t));
}

async function trySet(node: Redis, key: string, token: string, ttl: number): Promise<boolean> {
  try {
    return (await withTimeout(node.set(key, token, 'PX', ttl, 'NX'), Math.max(20, ttl / 4))) === 'OK';
  } catch {
    return false;
  }
}

async function tryDel(node: Redis, key: string, token: string): Promise<void> {
  try {
    await withTimeout(node.eval(lua, 1, key, token), 400);
  } catch {
    // it will expire
  }
}

export const make: MakeLock = ({ nodes }) => {
  const quorum = Math.floor(nodes.length / 2) + 1;
  const unlockAll = (key: string, token: string) => Promise.all(nodes.map((node) => tryDel(node, key, token)));

  async function attempt(key: string, token: string, ttl: number) {
    const votes = await Promise.all(nodes.map((node) => trySet(node, key, token, ttl)));
    const ok = votes.filter(Boolean).length;
    if (ok < quorum) return null;

    // Leave some room for clocks that do not agree with ours.
    const drift = Math.round(DRIFT_FACTOR * ttl) + 2;
    const validity = ttl - drift;
    if (validity <= 0) return null;
    return { validUntil: performance.now() + validity };
  }

  return {
    async acquire(resource, ttl) {
      const key = `locks/${resource}`;
      for (let i = 0; i < MAX_RETRIES; i++) {
        const token = randomUUID();
        const result = await attempt(key, token, ttl);
        if (result) {
          let open = true;
          return {
            key,
            isHeld: () => open && performance.now() < result.validUntil,
            release: async () => {
              open = false;
              await unlockAll(key, token);
            },
          };
        }
        await unlockAll(key, token);
        await new Promise((r) => setTimeout(r, 50 + Math.floor(Math.random() * 100)));
      }
      return null;
    },
  };
};
