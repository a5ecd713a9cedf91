import { describe, expect, it } from 'vitest';
import type { Fault, LockPlan } from '../../scenarios/index.js';
import { type SimLock, trueTime } from '../../sim/index.js';
import { lock, type Parts, schedule, unreached } from '../../sim/testing/schedule.js';
import { judge } from '../judge.js';
import type { Violation } from '../violation.js';
import { MutualExclusion } from './mutual-exclusion.js';

/**
 * Two nodes of which one makes a quorum, each within reach of one client only: both can hold the lock at once, and
 * nothing but their timing decides whether they do. c1 asks at 0 and holds from 2 ms to 9898 ms.
 */
function apart(second: readonly LockPlan[], parts: Parts = {}, first: readonly LockPlan[] = [lock(0)]): Parts {
  return {
    cluster: { nodes: 2 },
    policy: { settings: { tries: 1 }, deviations: ['quorum:1'], habits: { clock: 'wall' } },
    locks: [first, second],
    fates: [...unreached('c1', 'n1'), ...unreached('c2', 'n0')],
    ...parts,
  };
}

/** Who overlapped whom on what, from when until when. */
function overlaps(parts: Parts): unknown[] {
  return judge(schedule(parts))
    .violations.filter(({ property }) => property === 'mutual-exclusion')
    .map(({ clients, resource, atUs, untilUs }) => [clients.join('&'), resource, atUs, untilUs]);
}

const step = (process: string, atUs: number, byUs: number): Fault => ({ kind: 'clock-step', process, atUs, byUs });

describe('mutual exclusion', () => {
  it('is violated from the second claim to the end of the first', () => {
    expect(overlaps(apart([lock(2_000)]))).toEqual([['c1&c2', 'a', 4_000, 9_898_000]]);
  });

  it('is violated for one microsecond, and not where one claim begins as another ends', () => {
    expect(overlaps(apart([lock(9_895_999)]))).toEqual([['c1&c2', 'a', 9_897_999, 9_898_000]]);
    expect(overlaps(apart([lock(9_896_000)]))).toEqual([]);
  });

  it('holds from the call of the release on, whatever comes first in that instant', () => {
    const until = (holdUs: number): Parts => apart([lock(5_000)], {}, [lock(0, { holdUs })]);
    expect(overlaps(until(4_999))).toEqual([]);
    expect(overlaps(until(5_000))).toEqual([]);
    expect(overlaps(until(5_001))).toEqual([['c1&c2', 'a', 7_000, 7_001]]);
  });

  it('is judged to the end of a run in which a claim began as another ended', () => {
    // c2 claims at 7 ms, just before c1 releases in that instant; c1 is back while c2 holds on.
    const parts = apart([lock(5_000)], {}, [lock(0, { holdUs: 5_000 }), lock(20_000)]);
    expect(overlaps(parts)).toEqual([['c2&c1', 'a', 22_000, 9_903_000]]);
  });

  it('ends with a client that dies', () => {
    const faults: Fault[] = [{ kind: 'client-crash', client: 'c2', atUs: 6_000 }];
    expect(overlaps(apart([lock(2_000)], { faults }))).toEqual([['c1&c2', 'a', 4_000, 6_000]]);
  });

  it('is about one resource at a time', () => {
    const both = lock(0, { resources: ['b', 'a', 'c'] });
    expect(overlaps(apart([lock(2_000, { resources: ['d'] })], {}, [both]))).toEqual([]);
    expect(overlaps(apart([lock(2_000, { resources: ['a', 'b'] })], {}, [both]))).toEqual([
      ['c1&c2', 'a', 4_000, 9_898_000],
      ['c1&c2', 'b', 4_000, 9_898_000],
    ]);
  });

  it('binds two locks of one client too', () => {
    const parts: Parts = {
      cluster: { nodes: 1 },
      policy: { deviations: ['sets-any'] },
      locks: [[lock(0), lock(1_000_000)]],
    };
    expect(overlaps(parts)).toEqual([['c1&c1', 'a', 1_002_000, 9_898_000]]);
  });

  it('sees each pair of three', () => {
    const parts: Parts = {
      cluster: { nodes: 1 },
      policy: { deviations: ['sets-any'] },
      locks: [[lock(0)], [lock(1_000)], [lock(2_000, { holdUs: 5_000 })]],
    };
    expect(overlaps(parts)).toEqual([
      ['c1&c2', 'a', 3_000, 9_898_000],
      ['c1&c3', 'a', 4_000, 9_000],
      ['c2&c3', 'a', 4_000, 9_000],
    ]);
  });

  it('goes on through an extension', () => {
    const extended = lock(0, { extensions: [{ afterUs: 5_000_000, ttlMs: 10_000 }] });
    const late = lock(2_000_000);
    expect(overlaps(apart([late], {}, [extended]))).toEqual([['c1&c2', 'a', 2_002_000, 11_898_000]]);
  });
});

describe('mutual exclusion and clocks', () => {
  it('follows the clock of each believer', () => {
    const clocks = [{ process: 'c1', offsetUs: 0, ratePpm: -500_000 }];
    expect(overlaps(apart([lock(9_896_000)], { cluster: { nodes: 2, clocks } }))).toEqual([
      ['c1&c2', 'a', 9_898_000, 19_794_000],
    ]);
  });

  it('is back as soon as a clock jumps over the end of its claim', () => {
    const faults = [step('c1', 5_000_000, 20_000_000)];
    expect(overlaps(apart([lock(2_000)], { faults }))).toEqual([['c1&c2', 'a', 4_000, 5_000_000]]);
    expect(overlaps(apart([lock(6_000_000)], { faults }))).toEqual([]);
  });

  it('is violated again where a belief comes back, as that of a frozen client can', () => {
    // Frozen, c1 has not heard that its claim ended at 9898 ms; at 12 s its clock goes back by 5 s.
    const frozen: Fault = { kind: 'pause', process: 'c1', atUs: 5_000_000, forUs: 20_000_000 };
    const faults = [frozen, step('c1', 12_000_000, -5_000_000)];
    expect(overlaps(apart([lock(10_500_000)], { faults }))).toEqual([['c2&c1', 'a', 12_000_000, 14_898_000]]);
    expect(overlaps(apart([lock(8_000_000)], { faults }))).toEqual([
      ['c1&c2', 'a', 8_002_000, 9_898_000],
      ['c2&c1', 'a', 12_000_000, 14_898_000],
    ]);
  });

  it('ends with the claim, not when a frozen client hears of it', () => {
    const faults: Fault[] = [{ kind: 'pause', process: 'c1', atUs: 5_000_000, forUs: 20_000_000 }];
    expect(overlaps(apart([lock(2_000)], { faults }))).toEqual([['c1&c2', 'a', 4_000, 9_898_000]]);
    const jumped = [...faults, step('c1', 12_000_000, 1)];
    expect(overlaps(apart([lock(2_000)], { faults: jumped }))).toEqual([['c1&c2', 'a', 4_000, 9_898_000]]);
  });

  it('holds where a claim ends as another begins, though its frozen client never hears of it and its clock changes again', () => {
    const frozen: Fault = { kind: 'pause', process: 'c1', atUs: 5_000, forUs: 20_000_000 };
    // c2 claims at 12 ms; in that instant c1's clock jumps over the end of its claim, or one microsecond later.
    const jumps = (atUs: number): Fault[] => [
      frozen,
      { kind: 'clock-step', process: 'c1', atUs, byUs: 10_000_000, edge: 'after' },
      step('c1', 50_000, 1),
    ];
    expect(overlaps(apart([lock(10_000)], { faults: jumps(12_000) }))).toEqual([]);
    expect(overlaps(apart([lock(10_000)], { faults: jumps(12_001) }))).toEqual([['c1&c2', 'a', 12_000, 12_001]]);
  });

  it('has a gap where a claim has lapsed before it is extended', () => {
    // c1 extends at 9 s, and sees it at 11.001 s; its claim has ended at 9.898 s.
    const frozen: Fault = { kind: 'pause', process: 'c1', atUs: 9_001_000, forUs: 2_000_000 };
    const first = [lock(0, { extensions: [{ afterUs: 8_998_000, ttlMs: 10_000 }] })];
    const policy = { settings: { tries: 1 }, deviations: ['quorum:1', 'extends-late'] } as const;
    expect(overlaps(apart([lock(2_000_000)], { policy, faults: [frozen] }, first))).toEqual([
      ['c1&c2', 'a', 2_002_000, 9_898_000],
      ['c2&c1', 'a', 11_001_000, 11_898_000],
    ]);
    expect(overlaps(apart([lock(2_000_000)], { policy }, first))).toEqual([['c1&c2', 'a', 2_002_000, 11_898_000]]);
  });

  it('ends where an extension leaves less than nothing', () => {
    const first = [lock(0, { extensions: [{ afterUs: 4_998_000, ttlMs: 2 }] })];
    const policy = { settings: { tries: 1 }, deviations: ['quorum:1', 'extension-unchecked', 'no-alarm'] } as const;
    expect(overlaps(apart([lock(2_000)], { policy }, first))).toEqual([['c1&c2', 'a', 4_000, 5_002_000]]);
  });

  it('lasts to the end of the run at most', () => {
    expect(overlaps(apart([lock(2_000)], { untilUs: 5_000 }))).toEqual([['c1&c2', 'a', 4_000, 5_000]]);
    expect(overlaps(apart([lock(2_000)], { untilUs: 3_999 }))).toEqual([]);
    expect(overlaps(apart([lock(2_000)], { untilUs: 4_000 }))).toEqual([]);
  });
});

describe('mutual exclusion of a resource that two may hold', () => {
  /** Three that hold one resource; each believes until it ends. */
  const locks = ['c1', 'c2', 'c3'].map(
    (name, index) =>
      ({ resources: [0], client: { index, name }, endsAt: 100, believes: () => true }) as unknown as SimLock,
  );

  it('is violated while three hold it, and no longer', () => {
    const violations: Violation[] = [];
    const monitor = new MutualExclusion(
      (it) => violations.push(it),
      () => 'a',
    );
    monitor.admits = 2;
    for (const [i, it] of locks.entries()) monitor.claimed(it, trueTime(10 * i));
    expect(violations.map(({ clients, atUs }) => [clients.join('&'), atUs])).toEqual([
      ['c1&c3', 20],
      ['c2&c3', 20],
    ]);
    monitor.ended(locks[1] as SimLock, trueTime(50));
    expect(violations.map(({ untilUs }) => untilUs)).toEqual([50, 50]);
  });
});
