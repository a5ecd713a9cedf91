import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { lockFactoryOf } from '../lock-factory.js';
import type { MakeLock } from '../lock-under-test.js';
import { lockOf, type Parts, RIGHT } from '../testing/blind/parts.js';
import { withstood } from './fault-classes.js';
import type { ViolationKind } from './kinds.js';
import { searchLibraries } from './search.js';

/** What a class of the default call finds in so many runs. */
async function found(id: string, make: MakeLock, runs = 25): Promise<ViolationKind[]> {
  const faults = withstood(false).find((it) => it.id === id);
  if (faults === undefined) throw new Error(`no class ${id}`);
  const subject = await lockFactoryOf('a lock', make, 500);
  const cell = await searchLibraries(subject, faults, { seed: 'x', runs, drain: 'at-once' });
  expect(cell.claims).toBeGreaterThan(runs);
  for (const { assumptionsBroken } of cell.found) expect(assumptionsBroken).toEqual([]);
  return cell.found.map(({ kind }) => kind);
}

const made =
  (change: Partial<Parts>): MakeLock =>
  ({ nodes }) =>
    lockOf(nodes, change);

const ONE_TOKEN: MakeLock = ({ nodes }) => ({
  acquire(key, ttlMs) {
    const token = randomUUID();
    return lockOf(nodes, { token: () => token }).acquire?.(key, ttlMs);
  },
});

/** Gives a lock whatever is left of it. */
const UNCHECKED: MakeLock = ({ nodes }) => {
  let until = 0;
  const unchecked = lockOf(nodes, {
    isInTime: () => true,
    until: (...times) => {
      until = RIGHT.until(...times);
      return until;
    },
  });
  return {
    async acquire(key, ttlMs) {
      const held = (await unchecked.acquire?.(key, ttlMs)) as { release(): Promise<void> } | null;
      if (held === null) return null;
      const end = until;
      return { remaining: () => Math.max(0, end - performance.now()), release: () => held.release() };
    },
  };
};

it.each<[string, string, MakeLock, ViolationKind]>([
  [
    'cut-off',
    'an error counts as an extension',
    made({ prolong: (...asked) => RIGHT.prolong(...asked).catch(() => true) }),
    'state',
  ],
  [
    'cut-off',
    'an extension replaces the key of another',
    made({ prolong: async (node, key, token, ttlMs) => (await node.set(key, token, 'PX', ttlMs, 'XX')) === 'OK' }),
    'state',
  ],
  ['paused-asking', 'nobody looks whether anything is left', UNCHECKED, 'acquisition'],
  ['no-spare', 'all tries have one token', ONE_TOKEN, 'state'],
])('%s finds that %s', async (id, _, make, kind) => {
  expect(await found(id, make)).toContain(kind);
});

it.each(['cut-off', 'paused-asking', 'no-spare'])('%s finds nothing in a right lock', async (id) => {
  expect(await found(id, made({}), 40)).toEqual([]);
});
