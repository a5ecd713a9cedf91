import { createRequire } from 'node:module';
import type { Redis, RedisOptions } from 'ioredis';
import { describe, expect, it } from 'vitest';
import type { Fate, Fault } from '../../scenarios/index.js';
import { lockFactoryOf } from '../lock-factory.js';
import type { MakeLock } from '../lock-under-test.js';
import { replayLibraries } from '../run.js';
import { kindOf } from '../search/kinds.js';
import { lockOf, type Parts } from '../testing/blind/parts.js';
import { plan, scheduleOf } from '../testing/schedules.js';

const require = createRequire(import.meta.url);

/** A lock above ioredis, which opens its own connections. */
function lockWith(change: Partial<Parts>, options: RedisOptions = {}): MakeLock {
  const { Redis: Client }: { Redis: new (url: string, options: RedisOptions) => Redis } = require('ioredis');
  return ({ addresses }) => {
    const nodes = addresses.map(({ url }) => new Client(url, options).on('error', () => {}));
    return lockOf(nodes, change);
  };
}

/** What is reported of c1, which acquires a lock and later another. */
async function found(make: MakeLock, faults: readonly Fault[] = [], fates: readonly Fate[] = []): Promise<string[]> {
  const subject = await lockFactoryOf('a lock', make, undefined);
  const locks = [[plan(0, 400_000), plan(10_000_000, 400_000, { ttlMs: 10_000 })]];
  const { violations } = await replayLibraries(subject, scheduleOf(locks, { faults, fates, untilUs: 40_000_000 }));
  return violations.map((it) => `${kindOf(it)}: ${it.detail}`);
}

const dead: Fault = { kind: 'crash', node: 'n0', atUs: 5_000_000, restartAfterUs: null };
const all: Partial<Parts> = { quorum: (nodes) => nodes };

describe('a client with connections of its own', () => {
  it('that is right has no violation, whatever is dead', async () => {
    expect(await found(lockWith({}))).toEqual([]);
    expect(await found(lockWith({}), [dead])).toEqual([]);
  });

  it('is told that it does not get a free lock, with a majority in order', async () => {
    expect(await found(lockWith(all))).toEqual([]);
    expect(await found(lockWith(all), [dead])).toEqual([
      'unavailable: c1 asks for a, which nobody has, with 4 of 5 nodes in order, and is not given it',
    ]);
  });

  it('is excused as long as its connection to a node in order is not back', async () => {
    const restarted: Fault = { ...dead, atUs: 9_990_000, restartAfterUs: 5_000 };
    const later = (retryStrategy: () => number): Promise<string[]> =>
      found(lockWith(all, { retryStrategy }), [restarted]);
    expect(await later(() => 9_000)).toEqual([]);
  });

  it('violates when a release is rejected for no reason, and not where its connection broke', async () => {
    const make: MakeLock = (bed) => {
      const inner = lockWith({})(bed);
      return {
        acquire: async (resource, ttlMs) => (await inner).acquire?.(resource, ttlMs),
        async release(held) {
          await (held as { release(): Promise<void> }).release();
          throw new TypeError('no such thing');
        },
      };
    };
    const said =
      'rejection: release of c1 is rejected with TypeError: no such thing, though it holds the lock and all nodes are in order';
    // The first lock was asked for before there was a connection.
    expect(await found(make)).toEqual([said]);
    expect(await found(make, [{ ...dead, atUs: 10_100_000, restartAfterUs: 50_000 }])).toEqual([]);
  });
});
