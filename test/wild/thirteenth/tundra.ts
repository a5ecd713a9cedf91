import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const RENEW = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 0`;
const REMOVE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0`;

function deadline<T>(ms: number, command: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`redis did not answer within ${ms} ms`)), ms);
    command.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** Renews the key for as long as the work goes on. */
function keepAlive(redis: Redis, key: string, token: string, ttl: number) {
  const lost = new AbortController();
  let stopped = false;
  let timer = setTimeout(beat, ttl / 3);

  async function beat() {
    try {
      const renewed = await deadline(ttl / 3, redis.eval(RENEW, 1, key, token, ttl));
      if (stopped) return;
      if (renewed !== 1) {
        stopped = true;
        lost.abort(new Error(`somebody else has ${key}`));
        return;
      }
    } catch {
      // A blip of the network. The next beat will get through.
    }
    if (!stopped) timer = setTimeout(beat, ttl / 3);
  }

  return {
    signal: lost.signal,
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

export const make: MakeLock = ({ nodes: [redis] }) => ({
  async using(resource, ttl, routine) {
    const token = randomUUID();
    const free = () => deadline(ttl / 3, redis.eval(REMOVE, 1, resource, token)).catch(() => {});

    let acquired = false;
    for (let i = 0; i < 10 && !acquired; i++) {
      if (i > 0) await new Promise((resolve) => setTimeout(resolve, 40 + Math.random() * 60));
      const began = performance.now();
      const answer = await deadline(ttl / 3, redis.set(resource, token, 'PX', ttl, 'NX')).catch(() => null);
      acquired = answer === 'OK' && performance.now() - began < ttl / 2;
      if (!acquired) await free();
    }
    if (!acquired) throw new Error(`${resource} is locked`);

    const heart = keepAlive(redis, resource, token, ttl);
    try {
      await routine(heart.signal);
    } finally {
      heart.stop();
      await free();
    }
  },
});
