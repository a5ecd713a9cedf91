import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const CLOCK_DRIFT = 0.01;
const CLOCK_GRAIN_MS = 2;

const scripts = {
  unlock: 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0',
  extend: [
    'if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end',
    'if redis.call("pttl", KEYS[1]) < tonumber(ARGV[2]) then redis.call("pexpire", KEYS[1], ARGV[2]) end',
    'return 1',
  ].join('\n'),
} as const;

interface Outcome {
  readonly ok: boolean;
  readonly validity: number;
  readonly at: number;
}

interface Options {
  nodeTimeout?: number;
  retries?: number;
  retryDelay?: number;
}

function createRedlock(nodes: readonly Redis[], { nodeTimeout = 400, retries = 30, retryDelay = 120 }: Options = {}) {
  const quorum = Math.floor(nodes.length / 2) + 1;

  async function accepted(answer: Promise<unknown>): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<boolean>((resolve) => {
      timer = setTimeout(resolve, nodeTimeout, false);
    });
    try {
      return await Promise.race([answer.then((value) => value === 'OK' || value === 1), timeout]);
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Asks all nodes. The validity is what is left of the TTL after that, with an allowance for the clocks. */
  async function round(ttlMs: number, ask: (node: Redis) => Promise<unknown>): Promise<Outcome> {
    const started = Date.now();
    const votes = await Promise.all(nodes.map((node) => accepted(ask(node))));
    const at = Date.now();
    const elapsed = at - started;
    const drift = Math.ceil(elapsed * CLOCK_DRIFT) + CLOCK_GRAIN_MS;
    const validity = ttlMs - elapsed - drift;
    return { ok: votes.filter(Boolean).length >= quorum && validity > 0, validity, at };
  }

  async function unlock(key: string, token: string): Promise<void> {
    await Promise.all(nodes.map((node) => accepted(node.eval(scripts.unlock, 1, key, token))));
  }

  async function lock(key: string, ttlMs: number) {
    for (let attempt = 0; attempt <= retries; attempt += 1) {
      const token = randomUUID();
      const { ok, at, validity } = await round(ttlMs, (node) => node.set(key, token, 'PX', ttlMs, 'NX'));
      if (ok) return held(key, token, at + validity);
      await unlock(key, token);
      await sleep(Math.round(retryDelay * (0.5 + Math.random())));
    }
    return null;
  }

  function held(key: string, token: string, end: number) {
    return {
      token,
      validUntil: end,
      async extend(ttlMs: number): Promise<boolean> {
        if (Date.now() >= this.validUntil) return false;
        const { ok, at, validity } = await round(ttlMs, (node) => node.eval(scripts.extend, 1, key, token, ttlMs));
        if (Date.now() >= this.validUntil) {
          await this.release();
          return false;
        }
        if (ok) this.validUntil = Math.max(this.validUntil, at + validity);
        return ok;
      },
      release(): Promise<void> {
        this.validUntil = 0;
        return unlock(key, token);
      },
    };
  }

  return { lock };
}

export const make: MakeLock = ({ nodes }) => {
  const { lock } = createRedlock(nodes);
  return { acquire: (resource, ttlMs) => lock(`redlock:${resource}`, ttlMs) };
};
