import { describe, expect, it } from 'vitest';
import type { Fault, ResourceGuard, WritePlan } from '../scenarios/index.js';
import { lock, type Parts, trace } from './testing/schedule.js';

const write = (sendAfterUs: number): WritePlan => ({ checkAfterUs: 500, guardUs: 0, sendAfterUs, delayUs: 1_000 });

/** c1 is frozen with two writes to send, until c2 has the lock and has written once; c2 writes again after that. */
const frozen: Fault[] = [{ kind: 'pause', process: 'c1', atUs: 7_000, forUs: 10_013_000 }];
const locks = [
  [lock(0, { writes: [write(6_000), write(7_000)] })],
  [lock(10_001_000, { writes: [write(1_500), write(50_000)] })],
];

/** What became of each write. */
function writes(resource: ResourceGuard, parts: Parts = {}): string[] {
  return trace({ locks, faults: frozen, policy: { settings: { fencing: true } }, resource, ...parts })
    .filter(({ kind }) => kind === 'write-arrived' || kind === 'write-refused')
    .map(
      ({ process, kind, detail }) => `${process} ${detail.index} ${kind.slice(6)}${detail.stale === 1 ? ' stale' : ''}`,
    );
}

describe('a resource', () => {
  it('that looks at nothing takes everything', () => {
    expect(writes('none')).toEqual(['c2 0 arrived', 'c1 0 arrived stale', 'c1 1 arrived stale', 'c2 1 arrived']);
  });

  it('that looks at fencing tokens refuses those that are lower than one it has seen', () => {
    expect(writes('fencing')).toEqual(['c2 0 arrived', 'c1 0 refused stale', 'c1 1 refused stale', 'c2 1 arrived']);
  });

  it('that takes each token once refuses the rest of the writes of its holder', () => {
    expect(writes('fencing-strict', { faults: [] })).toEqual([
      'c1 0 arrived',
      'c1 1 refused',
      'c2 0 arrived',
      'c2 1 refused',
    ]);
  });

  it('that compares and sets has the token of the last writer, and takes writes with that only', () => {
    expect(writes('cas')).toEqual(['c2 0 arrived', 'c1 0 arrived stale', 'c1 1 arrived stale', 'c2 1 refused']);
    expect(writes('cas', { faults: [] })).toEqual(['c1 0 arrived', 'c1 1 arrived', 'c2 0 arrived', 'c2 1 arrived']);
  });

  it('looks at its own tokens only', () => {
    const apart = locks.map(([it], i) => (it === undefined ? [] : [{ ...it, resources: [`r${i}`] }]));
    expect(writes('fencing', { locks: apart }).filter((it) => it.includes('refused'))).toEqual([]);
  });
});
