import { describe, expect, it } from 'vitest';
import { disagreementOn } from '../../bench/oracle/agreement.js';
import type { Fate, Fault } from '../../scenarios/index.js';
import { lock, type Parts, schedule, unreached } from '../../sim/testing/schedule.js';
import { judge } from '../judge.js';

/** From when until when a belief had no majority. */
function gaps(parts: Parts): unknown[] {
  return judge(schedule(parts))
    .violations.filter(({ property }) => property === 'quorum-backed')
    .map(({ clients, resource, atUs, untilUs }) => [...clients, resource, atUs, untilUs]);
}

const three = unreached('c1', 'n3', 'n4');
const crash = (node: string, atUs: number, restartAfterUs: number | null = 0): Fault => {
  return { kind: 'crash', node, atUs, restartAfterUs };
};

const WALL = { habits: { clock: 'wall' } } as const;

describe('quorum-backed', () => {
  it('is violated when a node that is needed forgets, until the claim ends', () => {
    expect(gaps({ fates: three, faults: [crash('n2', 3_000)] })).toEqual([['c1', 'a', 3_000, 9_898_000]]);
  });

  it('survives as many nodes with data loss as there are votes beyond the majority', () => {
    expect(gaps({ faults: [crash('n2', 3_000), crash('n3', 5_000)] })).toEqual([]);
    expect(gaps({ faults: [crash('n2', 3_000), crash('n3', 5_000), crash('n0', 6_000)] })).toEqual([
      ['c1', 'a', 6_000, 9_898_000],
    ]);
  });

  it('keeps the vote of a node that is down, and loses it when that is back without it', () => {
    expect(gaps({ fates: three, faults: [crash('n2', 3_000, null)] })).toEqual([]);
    expect(gaps({ fates: three, faults: [crash('n2', 3_000, 1_000)] })).toEqual([['c1', 'a', 4_000, 9_898_000]]);
    expect(gaps({ fates: three, faults: [crash('n2', 3_000, 9_894_999)] })).toEqual([
      ['c1', 'a', 9_897_999, 9_898_000],
    ]);
    expect(gaps({ fates: three, faults: [crash('n2', 3_000, 9_895_000)] })).toEqual([]);
  });

  it('is violated by a claim that was made with too few nodes', () => {
    expect(gaps({ policy: { deviations: ['quorum:2'] }, fates: unreached('c1', 'n2', 'n3', 'n4') })).toEqual([
      ['c1', 'a', 2_000, 9_898_000],
    ]);
  });

  it('needs more than half of an even number of nodes', () => {
    const even = (...nodes: string[]): Parts => {
      return { cluster: { nodes: 4 }, policy: { deviations: ['quorum:2'] }, fates: unreached('c1', ...nodes) };
    };
    expect(gaps(even('n3'))).toEqual([]);
    expect(gaps(even('n3', 'n2'))).toEqual([['c1', 'a', 2_000, 9_898_000]]);
  });

  it('asks for a majority for each resource', () => {
    const locks = [[lock(0, { resources: ['a', 'b'] })]];
    expect(gaps({ locks, fates: three, faults: [crash('n2', 3_000)] })).toHaveLength(1);
  });

  it('does not count a node that forgets as its holder releases or hears of the end', () => {
    const faults = (atUs: number): Fault[] => [crash('n2', atUs)];
    const locks = [[lock(0, { holdUs: 5_000 })]];
    expect(gaps({ locks, fates: three, faults: faults(7_000) })).toEqual([]);
    expect(gaps({ locks, fates: three, faults: faults(6_999) })).toEqual([['c1', 'a', 6_999, 7_000]]);
    expect(gaps({ fates: three, faults: faults(9_898_000) })).toEqual([]);
    expect(gaps({ fates: three, faults: faults(9_897_999) })).toEqual([['c1', 'a', 9_897_999, 9_898_000]]);
  });

  it('is judged to the end of a run in which a majority was lost as a claim ended', () => {
    const locks = [[lock(0, { holdUs: 5_000 }), lock(20_000)]];
    const faults = [crash('n2', 7_000), crash('n0', 23_000), crash('n1', 24_000), crash('n2', 25_000)];
    expect(gaps({ locks, fates: three, faults })).toEqual([['c1', 'a', 25_000, 9_918_000]]);
  });

  it('is violated when the clock of a holder goes back so far that its keys are gone before', () => {
    const back = (byUs: number): Fault[] => [{ kind: 'clock-step', process: 'c1', atUs: 5_000, byUs }];
    // The keys are gone at 11 s on clocks that are right: 10 s after 1 ms, and 1 ms.
    expect(gaps({ policy: WALL, faults: back(-104_000) })).toEqual([]);
    expect(gaps({ policy: WALL, faults: back(-104_001) })).toEqual([['c1', 'a', 10_002_000, 10_002_001]]);
  });

  it('does not miss a key that is there again in the instant in which it went', () => {
    const copied = (duplicateDelayUs: number): Fate[] => [
      ...three,
      { client: 'c1', operation: 'acquire', node: 'n2', direction: 'request', duplicateDelayUs },
    ];
    const faults: Fault[] = [{ kind: 'data-loss', node: 'n2', atUs: 5_000 }];
    expect(gaps({ faults, fates: copied(5_000) })).toEqual([]);
    expect(gaps({ faults, fates: copied(5_001) })).toEqual([['c1', 'a', 5_000, 9_898_000]]);
    // Nor is that of the other resource there.
    const locks = [[lock(0, { resources: ['a', 'b'] })]];
    const both: Fault[] = [{ kind: 'data-loss', node: 'n1', resource: 'b', atUs: 5_000 }, ...faults];
    expect(gaps({ locks, faults: both, fates: copied(5_000) })).toEqual([['c1', 'b', 5_000, 9_898_000]]);
  });

  it('is about the token of the attempt that won', () => {
    // The first attempt has two votes and is cleaned up, the second has all.
    const fates = [...unreached('c1', 'n2', 'n3', 'n4')];
    expect(gaps({ fates })).toEqual([]);
  });

  it('ends with the claim, though that is extended after it has lapsed unnoticed', () => {
    const locks = [[lock(0, { extensions: [{ afterUs: 8_998_000, ttlMs: 10_000 }] })]];
    const late = { deviations: ['extends-late', 'extends-missing'] } as const;
    const frozen: Fault = { kind: 'pause', process: 'c1', atUs: 9_001_000, forUs: 2_000_000 };
    const faults = [crash('n2', 3_000), frozen];
    // The extension is at 9 s and seen at 11.001 s; until then nobody looks at the end of the claim at 9.898 s.
    expect(gaps({ policy: late, locks, fates: three, faults })).toEqual([['c1', 'a', 3_000, 9_898_000]]);
    const own = { deviations: ['extends-late', 'extension-votes:-1'] };
    expect(gaps({ policy: own, locks, fates: three, faults })).toEqual([
      ['c1', 'a', 3_000, 9_898_000],
      ['c1', 'a', 11_001_000, 18_898_000],
    ]);
  });

  it('goes on through an extension in the instant of the end, and not through one that is over as it comes', () => {
    const extended = (afterUs: number, ttlMs: number): Parts => ({
      locks: [[lock(0, { extensions: [{ afterUs, ttlMs }] })]],
      policy: { deviations: ['extension-votes:-1', 'extension-unchecked', 'no-alarm', 'extends-late'] },
      fates: three,
      faults: [crash('n2', 3_000)],
    });
    expect(gaps(extended(9_894_000, 10_000))).toEqual([['c1', 'a', 3_000, 19_794_000]]);
    expect(gaps(extended(9_894_001, 10_000))).toEqual([
      ['c1', 'a', 3_000, 9_898_000],
      ['c1', 'a', 9_898_001, 19_794_001],
    ]);
    expect(gaps(extended(4_998_000, 2))).toEqual([['c1', 'a', 3_000, 5_002_000]]);
  });

  it('ends when a clock jumps over the end of the claim', () => {
    const faults: Fault[] = [crash('n2', 3_000), { kind: 'clock-step', process: 'c1', atUs: 5_000, byUs: 10_000_000 }];
    expect(gaps({ policy: WALL, fates: three, faults })).toEqual([['c1', 'a', 3_000, 5_000]]);
  });

  it('is none of no length, where a clock jumps over the end in the instant of the loss, seen or not', () => {
    const jump = (atUs: number): Fault => ({ kind: 'clock-step', process: 'c1', atUs, byUs: 10_000_000 });
    const frozen: Fault = { kind: 'suspend', process: 'c1', atUs: 5_000, forUs: 2_000_000 };
    const lost = crash('n2', 5_000);
    for (const first of [[], [frozen]]) {
      expect(gaps({ policy: WALL, fates: three, faults: [...first, lost, jump(5_000)] })).toEqual([]);
      expect(gaps({ policy: WALL, fates: three, faults: [...first, lost, jump(5_001)] })).toEqual([
        ['c1', 'a', 5_000, 5_001],
      ]);
    }
  });
});

describe('validity of locks with one token', () => {
  const gone = (resource: string, atUs: number, ...nodes: readonly string[]): Fault[] =>
    nodes.map((node) => ({ kind: 'data-loss', node, resource, atUs }));
  const forget = (resource: string, atUs: number): Fault[] => gone(resource, atUs, 'n0', 'n1', 'n2');
  /** c1 loses votes for both of its resources; n1 is back in that instant as it was a millisecond before. */
  const whileBack = (...faults: readonly Fault[]): Parts => ({
    cluster: { replicaLagUs: 1_000 },
    locks: [[lock(0, { resources: ['a', 'b'] })]],
    faults: [...faults, { kind: 'failover', node: 'n1', atUs: 10_000, edge: 'after' }],
  });

  it('is about the resource that was missing first, though a key of another is there again in that instant', () => {
    const parts = whileBack(
      ...gone('b', 5_000, 'n1'),
      ...gone('b', 10_000, 'n2', 'n3'),
      ...gone('a', 10_000, 'n1', 'n2', 'n3', 'n4'),
    );
    expect(gaps(parts)).toEqual([['c1', 'b', 10_000, 9_898_000]]);
    expect(disagreementOn(schedule(parts))).toBeNull();
  });

  it('… and though one of its own is there again, which is not enough', () => {
    const parts = whileBack(
      ...gone('b', 5_000, 'n3'),
      ...gone('b', 10_000, 'n1', 'n2', 'n4'),
      ...gone('a', 10_000, 'n1', 'n2', 'n3', 'n4'),
    );
    expect(gaps(parts)).toEqual([['c1', 'b', 10_000, 9_898_000]]);
    expect(disagreementOn(schedule(parts))).toBeNull();
  });

  it('is looked at for each of two clients that drew the same', () => {
    const both = (faults: Fault[]): unknown[] =>
      gaps({
        policy: { habits: { tokenFrom: 'clock' } },
        locks: [[lock(0, { resources: ['a'] })], [lock(0, { resources: ['b'] })]],
        faults,
      });
    expect(both(forget('a', 5_000))).toEqual([['c1', 'a', 5_000, 9_898_000]]);
    expect(both(forget('b', 6_000))).toEqual([['c2', 'b', 6_000, 9_898_000]]);
    expect(both([])).toEqual([]);
  });

  it('is looked at for each lock of a process that has but one', () => {
    const locks = [[lock(0, { resources: ['a'] }), lock(1_000, { resources: ['b'] })]];
    const policy = { deviations: ['token-per-call'], habits: { tokenPerProcess: true } } as const;
    expect(gaps({ policy, locks, faults: forget('a', 50_000) })).toEqual([['c1', 'a', 50_000, 9_898_000]]);
    expect(gaps({ policy, locks, faults: forget('b', 60_000) })).toEqual([['c1', 'b', 60_000, 9_899_000]]);
    expect(gaps({ policy, locks })).toEqual([]);
  });

  it('is lost to a second claim of the same process, which deletes the keys of both', () => {
    const policy = { deviations: ['token-per-call', 'own-key-grants'], habits: { tokenPerProcess: true } } as const;
    const claims = (first: number | null, second: number | null): unknown[] =>
      gaps({ policy, locks: [[lock(0, { holdUs: first }), lock(10_000, { holdUs: second })]] });
    // Released at 12 + 20 ms, deleted 1 ms later.
    expect(claims(null, 20_000)).toEqual([['c1', 'a', 33_000, 9_898_000]]);
    expect(claims(20_000, null)).toEqual([['c1', 'a', 23_000, 9_908_000]]);
    expect(claims(null, null)).toEqual([]);
  });
});
