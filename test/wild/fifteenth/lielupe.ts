import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const UNLOCK = `return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0`;
const PROLONG = `
local mine = redis.call('get', KEYS[1]) == ARGV[1]
if mine and redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return mine and 1 or 0`;

/** Lets the calls of this process in one after the other, so that they do not take nodes from each other. */
class Turnstile {
  readonly #tails = new Map<string, Promise<unknown>>();

  pass<T>(name: string, action: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(name) ?? Promise.resolve();
    const passed = before.then(action);
    const tail = passed.then(
      () => {},
      () => {},
    );
    this.#tails.set(name, tail);
    void tail.then(() => {
      if (this.#tails.get(name) === tail) this.#tails.delete(name);
    });
    return passed;
  }
}

export const make: MakeLock = ({ nodes }) => {
  const turnstile = new Turnstile();
  const quorum = Math.trunc(nodes.length / 2) + 1;

  const yes = (answer: Promise<unknown>, expected: unknown, ms: number) =>
    new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), ms);
      answer
        .then((value) => resolve(value === expected))
        .catch(() => resolve(false))
        .finally(() => clearTimeout(timer));
    });

  const all = async (ms: number, expected: unknown, ask: (node: Redis) => Promise<unknown>) => {
    const votes = await Promise.all(nodes.map((node) => yes(ask(node), expected, ms)));
    return votes.reduce((sum, vote) => sum + Number(vote), 0) >= quorum;
  };

  const attempt = async (key: string, ttlMs: number) => {
    const token = randomUUID();
    const usable = (ttl: number) => ttl - ttl * 0.01 - 2;
    let endsAt = performance.now() + usable(ttlMs);
    const remaining = () => Math.max(0, endsAt - performance.now());

    const release = () => {
      endsAt = 0;
      return all(500, 1, (node) => node.eval(UNLOCK, 1, key, token));
    };

    const extend = async (ttl: number) => {
      const asked = performance.now();
      if (remaining() === 0) return false;
      const agreed = await all(Math.min(500, ttl / 4), 1, (node) => node.eval(PROLONG, 1, key, token, ttl));
      if (remaining() === 0) {
        await release();
        return false;
      }
      if (agreed) endsAt = Math.max(endsAt, asked + usable(ttl));
      return agreed;
    };

    const agreed = await all(Math.min(500, ttlMs / 4), 'OK', (node) => node.set(key, token, 'PX', ttlMs, 'NX'));
    if (agreed && remaining() > 0) return { remaining, release, extend };
    await release();
    return null;
  };

  return {
    acquire(resource, ttlMs) {
      const patienceEnds = performance.now() + 3 * ttlMs;
      return turnstile.pass(resource, async () => {
        for (;;) {
          const lock = await attempt(resource, ttlMs);
          if (lock !== null || performance.now() >= patienceEnds) return lock;
          await new Promise((resolve) => setTimeout(resolve, 60 + Math.random() * 140));
        }
      });
    },
  };
};
