import nodeCrypto from 'node:crypto';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import * as promises from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { beforeAll, describe, expect, it } from 'vitest';
import type { expectSafe, LockUnderTest, SafeResult } from './testing.js';

/*
 * A right lock that tells the time, waits and draws by one of the ways that Node has, each in turn: once as it finds them
 * behind the dispatchers, and once as it has taken them before those were there.
 */

/** What a lock needs besides its nodes. */
interface Means {
  nowMs(): number;
  sleep(ms: number): Promise<unknown>;
  token(): string;
}

const require = createRequire(import.meta.url);
const { setTimeout: taken } = require('node:timers/promises') as typeof import('node:timers/promises');
/** What was there before the dispatchers, which the import below brings. */
const EARLY = {
  bigint: process.hrtime.bigint,
  timeout: AbortSignal.timeout.bind(AbortSignal),
  randomUUID: nodeCrypto.randomUUID,
  webUUID: crypto.randomUUID.bind(crypto),
  sleep: taken,
};

const ms = (ns: bigint): number => Number(ns / 1_000n) / 1_000;
const aborted = (signal: AbortSignal): Promise<unknown> =>
  new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));

const LATE: Readonly<Record<string, Partial<Means>>> = {
  'process.hrtime.bigint()': { nowMs: () => ms(process.hrtime.bigint()) },
  'process.hrtime()': {
    nowMs: () => {
      const [s, ns] = process.hrtime();
      return s * 1_000 + ns / 1_000_000;
    },
  },
  'performance.now()': { nowMs: () => performance.now() },
  'AbortSignal.timeout()': { sleep: (delay) => aborted(AbortSignal.timeout(delay)) },
  'timers/promises': { sleep: (delay) => promises.setTimeout(delay) },
  'timers/promises, by require': { sleep: (delay) => require('node:timers/promises').setTimeout(delay) },
  'crypto.randomUUID()': { token: () => crypto.randomUUID() },
  'randomUUID() of node:crypto': { token: () => nodeCrypto.randomUUID() },
};

const TAKEN: Readonly<Record<string, Partial<Means>>> = {
  'process.hrtime.bigint()': { nowMs: () => ms(EARLY.bigint()) },
  'AbortSignal.timeout()': { sleep: (delay) => aborted(EARLY.timeout(delay)) },
  'timers/promises, by require': { sleep: (delay) => EARLY.sleep(delay) },
};

const DEFAULTS: Means = {
  nowMs: () => Date.now(),
  sleep: (delay) => new Promise((resolve) => setTimeout(resolve, delay)),
  token: () => String(Math.random()),
};

const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** A right lock by these means; whatever it reads is noted. */
function lockBy(means: Means, read: unknown[]): (bed: { readonly nodes: readonly Redis[] }) => LockUnderTest {
  const noted = <T>(value: T): T => {
    read.push(value);
    return value;
  };
  return ({ nodes }) => ({
    async acquire(resource, ttlMs) {
      for (let attempt = 0; attempt < 3; attempt++) {
        const token = noted(means.token());
        const end = noted(means.nowMs()) + ttlMs * 0.99 - 2;
        const release = (): Promise<unknown> =>
          Promise.allSettled(nodes.map((node) => node.eval(UNLOCK, 1, resource, token)));
        const votes = await Promise.allSettled(nodes.map((node) => node.set(resource, token, 'PX', ttlMs, 'NX')));
        const yes = votes.filter((it) => it.status === 'fulfilled' && it.value === 'OK').length;
        if (yes > nodes.length / 2 && means.nowMs() < end) return { remaining: () => end - means.nowMs(), release };
        await release();
        await means.sleep(30);
      }
      return null;
    },
  });
}

let tested: typeof expectSafe;

beforeAll(async () => {
  ({ expectSafe: tested } = await import('./testing.js'));
});

async function outcome(means: Partial<Means>): Promise<{ readonly result: SafeResult; readonly read: unknown[] }> {
  const read: unknown[] = [];
  const make = lockBy({ ...DEFAULTS, ...means }, read);
  const options = { faults: { crash: 1, delay: 0.05, loss: 0.02 }, runs: 8, reportTo: tmpdir() };
  return { result: await tested(make as never, options), read };
}

describe('a client that uses', () => {
  it.each(Object.entries(LATE))('%s runs deterministically', async (_, means) => {
    const [first, second] = [await outcome(means), await outcome(means)];
    expect(first.result.claims).toBeGreaterThan(5);
    // Not only the runs are the same: everything that it read is.
    expect(first.read.length).toBeGreaterThan(20);
    expect(second).toEqual(first);
  });

  it.each(Object.entries(TAKEN))('%s of before the dispatchers is refused by name', async (_, means) => {
    const error = await outcome(means).catch((it: unknown) => it);
    expect(error).toBeInstanceOf(Error);
    expect(['UnsupportedClient', 'NondeterministicClientError']).toContain((error as Error).name);
    expect((error as Error).message).toMatch(/native (setTimeout|process\.hrtime)|is not deterministic at event \d+/);
  });

  it('randomUUID() of before the dispatchers runs deterministically: tokens are told apart, not read', async () => {
    for (const token of [() => EARLY.randomUUID(), () => EARLY.webUUID()]) {
      const [first, second] = [await outcome({ token }), await outcome({ token })];
      expect(second.result).toEqual(first.result);
    }
  });
});
