import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const COMPARE_AND_DELETE = `
local v = redis.call('get', KEYS[1])
if v == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

const ROUNDS = 6;

function patiently<T>(command: Promise<T>, ms: number): Promise<T | null> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(null), ms);
    command
      .catch(() => null)
      .then((value) => {
        clearTimeout(timer);
        resolve(value);
      });
  });
}

export const make: MakeLock = ({ nodes }) => {
  const quorum = Math.floor(nodes.length / 2) + 1;

  async function drop(key: string, token: string, ms: number): Promise<void> {
    await Promise.all(nodes.map((node) => patiently(node.eval(COMPARE_AND_DELETE, 1, key, token), ms)));
  }

  async function acquire(key: string, ttl: number) {
    const ms = Math.max(20, ttl / 6);
    const token = randomUUID();
    const granted = new Set<Redis>();

    for (let round = 0; round < ROUNDS; round++) {
      if (round > 0) await new Promise((resolve) => setTimeout(resolve, ttl / 20 + Math.random() * (ttl / 10)));
      const began = performance.now();
      // A node that was busy or unreachable in one round often says yes in the next.
      await Promise.all(
        nodes
          .filter((node) => !granted.has(node))
          .map(async (node) => {
            const answer = await patiently(node.set(key, token, 'PX', ttl, 'NX'), ms);
            if (answer === 'OK') granted.add(node);
          }),
      );
      const end = began + ttl - (ttl * 0.01 + 2);
      if (granted.size >= quorum && performance.now() < end) return handle(key, token, end, ms);
    }

    await drop(key, token, ms);
    return null;
  }

  function handle(key: string, token: string, end: number, ms: number) {
    let released = false;
    return {
      key,
      remaining(): number {
        return released ? 0 : Math.max(0, end - performance.now());
      },
      async release(): Promise<void> {
        released = true;
        await drop(key, token, ms);
      },
    };
  }

  return { acquire };
};
