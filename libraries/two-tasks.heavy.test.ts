import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { OneNodeLock } from './testing/clients/right-locks.js';
import { caught } from './testing/expecting.js';
import { expectSafe, type MakeLock, UnsafeLockError } from './testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));
const options = { nodes: 1, runs: 40, reportTo };

type Held = NonNullable<Awaited<ReturnType<OneNodeLock['acquire']>>>;

/** What a process keeps of its locks beside their handles. */
type Kept = 'nothing' | 'the latest' | 'that it has one' | 'how many it has';

/** A right lock, spoiled by what its process keeps. */
function keeping(kept: Kept): MakeLock {
  return ({ nodes: [node] }) => {
    const lock = new OneNodeLock(node);
    const known = new Map<string, Held>();
    let latest: Held | null = null;
    return {
      async acquire(resource, ttlMs) {
        const before = known.get(resource);
        const isOurs = kept === 'how many it has' && before !== undefined;
        let held = isOurs ? before : await lock.acquire(resource, ttlMs);
        if (kept === 'that it has one') held ??= known.get(resource) ?? null;
        if (held === null) return null;
        const { expiration, release } = held;
        known.set(resource, held);
        latest = held;
        return {
          expiration,
          release: () => {
            known.delete(resource);
            return kept === 'the latest' ? latest?.release() : release();
          },
        };
      },
    };
  };
}

describe('two acquisitions of one process', () => {
  it('may be made by a lock that keeps them apart', async () => {
    const { classes, claims } = await expectSafe(keeping('nothing'), options);
    expect(classes['two-tasks']).toBe(4);
    expect(claims).toBeGreaterThan(100);
  });

  it.each([
    ['the latest', 'leak', 'leaves its key on n0, where it never sent a release'],
    ['that it has one', 'belief', 'two acquisitions of'],
    ['how many it has', 'belief', 'two acquisitions of'],
  ] as const)('break one whose process keeps %s, and nothing else does', async (kept, kind, detail) => {
    const error = await caught(expectSafe(keeping(kept), options));
    expect(error).toBeInstanceOf(UnsafeLockError);
    expect((error as UnsafeLockError).violation.detail).toContain(detail);
    expect(error).toMatchObject({ kind });
    expect((await expectSafe(keeping(kept), { ...options, tasks: 1 })).classes['two-tasks']).toBeUndefined();
  });

  it('are not asked of one that gives nothing by which to tell them apart', async () => {
    const make: MakeLock = ({ nodes: [node] }) => {
      const lock = new OneNodeLock(node);
      let latest: Held | null = null;
      const one = {
        get expiration() {
          return latest?.expiration ?? 0;
        },
        release: () => latest?.release(),
      };
      return {
        async acquire(resource, ttlMs) {
          latest = await lock.acquire(resource, ttlMs);
          return latest === null ? null : one;
        },
      };
    };
    expect((await expectSafe(make, options)).classes['two-tasks']).toBeUndefined();
  });
});
