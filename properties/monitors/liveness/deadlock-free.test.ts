import { describe, expect, it } from 'vitest';
import { disagreementOn } from '../../../bench/oracle/agreement.js';
import type { Fate, Fault } from '../../../scenarios/index.js';
import { lock, type Parts, schedule } from '../../../sim/testing/schedule.js';
import { judge } from '../../judge.js';
import { found } from '../../testing/found.js';

const free = (parts: Parts): string[] => found('deadlock-free', parts);

/** The trace says the same. */
function agreed(parts: Parts, expected: readonly string[]): void {
  expect(free(parts)).toEqual(expected);
  expect(disagreementOn(schedule(parts))).toBeNull();
}

const policy = { settings: { tries: null } };

/** Wants more votes than there are nodes, and so never gets its lock. */
const never: Parts = { policy: { ...policy, deviations: ['quorum:6'] } };

const refusing: Fault[] = ['n0', 'n1', 'n2'].map((node) => {
  return { kind: 'error-replies', node, operations: ['acquire'], atUs: 0, forUs: 1_000_000 };
});

describe('a client that keeps trying alone', () => {
  it('has its lock within two attempts, a pause and the time-out of a release', () => {
    // 50 + 2 × 50 + 300 ms after it began.
    expect(free(never)).toEqual(['c1 450000']);
    expect(free({ policy })).toEqual([]);
  });

  it('has it as long after the last disturbance', () => {
    const step: Fault = { kind: 'clock-step', process: 'n4', atUs: 400_000, byUs: 1 };
    expect(free({ ...never, faults: [step] })).toEqual(['c1 850000']);
    const loss: Fate = { client: 'c1', operation: 'acquire', attempt: 1, node: 'n4', direction: 'reply', lost: true };
    // The second attempt begins 202 ms after the first, and is answered 1 ms later.
    expect(free({ ...never, fates: [loss] })).toEqual(['c1 653000']);
    const late: Fate = { client: 'c1', operation: 'acquire', node: 'n4', direction: 'request', delayUs: 300_000 };
    expect(free({ ...never, fates: [late] })).toEqual(['c1 750000']);
    const frozen: Fault = { kind: 'pause', process: 'c1', atUs: 100_000, forUs: 500_000 };
    expect(free({ ...never, faults: [frozen] })).toEqual(['c1 1050000']);
  });

  it('has until a majority is in order, and has been for so long', () => {
    expect(free({ policy, faults: refusing })).toEqual([]);
    expect(free({ ...never, faults: refusing })).toEqual(['c1 1450000']);
  });

  it('has to wait for the keys of others, but no longer than their TTL', () => {
    const dead: Fault = { kind: 'client-crash', client: 'c1', atUs: 5_000 };
    const locks = [[lock(0)], [lock(10_000)]];
    expect(free({ policy, locks, faults: [dead] })).toEqual([]);
    // Its keys are set at 1 ms, and need not be waited for once they are gone.
    const early: Fault = { kind: 'client-crash', client: 'c1', atUs: 1_500 };
    const forgets = ['n0', 'n1', 'n2', 'n3', 'n4'].map((node): Fault => ({ kind: 'data-loss', node, atUs: 2_000_000 }));
    expect(free({ ...never, locks, faults: [early] })).toEqual(['c2 10452000']);
    expect(free({ ...never, locks, faults: [early, ...forgets] })).toEqual(['c2 2450000']);
    const back = (node: string): Fault => ({ kind: 'clock-step', process: node, atUs: 5_000, byUs: -1_000_000 });
    expect(free({ policy, locks, faults: [dead, ...['n0', 'n1', 'n2'].map(back)] })).toEqual([]);
  });

  it('is watched only while nobody else wants or holds the lock', () => {
    expect(free({ ...never, locks: [[lock(0)], [lock(100)]] })).toEqual([]);
    const dies: Fault = { kind: 'client-crash', client: 'c2', atUs: 200_000 };
    expect(free({ ...never, locks: [[lock(0)], [lock(100)]], faults: [dies] })).toEqual(['c1 650000']);
    expect(free({ ...never, locks: [[lock(0)], [lock(100, { resources: ['b'] })]] })).toEqual([
      'c1 450100',
      'c2 450100',
    ]);
  });

  it('is looked at again whenever somebody comes or goes, though keys of others put off the next look', () => {
    const goes = (client: string, atUs: number): Fault => ({ kind: 'client-crash', client, atUs });
    // Waits for answers without end, and so has no deadline of its own that is looked at in between.
    const silent: Parts = { policy: { deviations: ['quorum:6', 'settles-by-quorum-only'] } };
    const frozen: Fault = { kind: 'pause', process: 'c3', atUs: 100_000, forUs: 500_000 };
    const faults = [goes('c1', 1_500), frozen, goes('c3', 5_000_000)];
    // At 550 ms, c3 is frozen, and c2 has to wait for keys until 10 s.
    const locks = [[lock(0)], [lock(10_000)], [lock(20_000, { resources: ['b'] })], []];
    expect(free({ ...silent, locks, faults, untilUs: 9_000_000 })).toEqual([]);
    const gone = goes('c4', 1_000_000);
    expect(free({ ...silent, locks, faults: [...faults, gone], untilUs: 9_000_000 })).toEqual(['c3 1450000']);
  });

  it('is told of once, and only where somebody asks for it', () => {
    expect(free({ ...never, untilUs: 60_000_000 })).toHaveLength(1);
    expect(free({ ...never, untilUs: 450_000 })).toEqual([]);
    expect(judge(schedule(never)).verdicts.liveness).toBe('unchecked');
    expect(judge(schedule(never), ['deadlock-free']).verdicts.liveness).toBe('violated');
  });
});

describe('a lock that extends itself', () => {
  const auto = { settings: { autoExtendAtUs: 500_000, autoExtendSpacingUs: 0 } } as const;
  const hold = [[lock(0, { ttlMs: 1_000 })]];

  it('ends by itself after the extensions that its policy allows, or after ten', () => {
    expect(free({ policy: { settings: { ...auto.settings, maxExtensions: null } }, locks: hold })).toEqual([
      'c1 11002000',
    ]);
    expect(free({ policy: { settings: { ...auto.settings, maxExtensions: 10 } }, locks: hold })).toEqual([]);
    expect(free({ policy: { settings: { ...auto.settings, maxExtensions: 20 } }, locks: hold })).toEqual([]);
  });

  it('is judged by what its owner was told by then, not by what was heard since', () => {
    const endless = { settings: { ...auto.settings, maxExtensions: null } };
    // Nothing is heard any more when it is due, at 11.002 s; it ends at 11.724 s.
    const to = ['n0', 'n1', 'n2', 'n3', 'n4'];
    const cut: Fault = { kind: 'partition', atUs: 10_900_000, from: ['c1'], to, oneWay: false, forUs: 5_000_000 };
    agreed({ policy: endless, locks: hold, faults: [cut] }, ['c1 11002000']);
    // The extension of 10.25 s comes back at 11.05 s, when the claim had been over since 10.748 s; or before it is due.
    const late = {
      settings: { ...endless.settings, nodeTimeoutUs: 2_000_000 },
      deviations: ['settles-with-all', 'release-awaits-all', 'extends-late', 'no-alarm'],
    };
    const hung: Fault = { kind: 'pause', process: 'n0', atUs: 10_200_000, forUs: 850_000 };
    agreed({ policy: late, locks: hold, faults: [hung] }, []);
    const shorter: Fault = { kind: 'pause', process: 'n0', atUs: 10_200_000, forUs: 700_000 };
    agreed({ policy: late, locks: hold, faults: [shorter] }, ['c1 11002000']);
  });

  it('may go on for as long as its owner wants, if it is released', () => {
    const given = [[lock(0, { ttlMs: 1_000, holdUs: 25_000_000 })]];
    expect(free({ policy: { settings: { ...auto.settings, maxExtensions: null } }, locks: given })).toEqual([]);
  });
});
