import { describe, expect, it } from 'vitest';
import type { Fate, Fault } from '../../scenarios/index.js';
import { lock, type Parts } from '../../sim/testing/schedule.js';
import { findings } from './testing/findings.js';

/** What the trace says of who waits, and when; the monitors have to say the same. */
const live = (parts: Parts): string[] =>
  findings(parts).filter((it) => /^(deadlock-free|fault-tolerance|progress)/.test(it));

const policy = { settings: { tries: null } };
/** Wants more votes than there are nodes, and so never gets its lock. */
const never: Parts = { policy: { ...policy, deviations: ['quorum:6'] } };
const dead = (node: string): Fault => ({ kind: 'crash', node, atUs: 0, restartAfterUs: null });
const hung = (node: string): Fault => ({ kind: 'pause', process: node, atUs: 0, forUs: 60_000_000 });

describe('a client that waits alone, by its trace', () => {
  it('should have its lock 450 ms after the last disturbance', () => {
    expect(live(never)).toEqual(['deadlock-free c1 450000..450000']);
    expect(live({ policy })).toEqual([]);
    const step: Fault = { kind: 'clock-step', process: 'n4', atUs: 400_000, byUs: 1 };
    expect(live({ ...never, faults: [step] })).toEqual(['deadlock-free c1 850000..850000']);
    const frozen: Fault = { kind: 'pause', process: 'c1', atUs: 100_000, forUs: 500_000 };
    expect(live({ ...never, faults: [frozen] })).toEqual(['deadlock-free c1 1050000..1050000']);
    const loss: Fate = { client: 'c1', operation: 'acquire', attempt: 1, node: 'n4', direction: 'reply', lost: true };
    expect(live({ ...never, fates: [loss] })).toEqual(['deadlock-free c1 653000..653000']);
    expect(live({ ...never, untilUs: 450_000 })).toEqual([]);
  });

  it('is told of by another name where a minority is out of order', () => {
    const greedy: Parts = { policy: { settings: { tries: null }, deviations: ['quorum:4'] } };
    const faults = [dead('n1'), hung('n3')];
    expect(live({ ...greedy, faults })).toEqual(['fault-tolerance c1 450000..450000']);
    expect(live({ policy, faults })).toEqual([]);
    expect(live({ ...greedy, faults: ['n0', 'n1', 'n2'].map(dead) })).toEqual([]);
  });

  it('has to put up with rivals, and with keys until their TTL is over', () => {
    const rival = { ...never, locks: [[lock(0)], [lock(100)]] };
    expect(live(rival)).toEqual(['progress c1+c2 2222100..2222100']);
    const dies: Fault = { kind: 'client-crash', client: 'c2', atUs: 200_000 };
    expect(live({ ...rival, faults: [dies] })).toEqual(['deadlock-free c1 650000..650000']);
    const gone: Fault = { kind: 'client-crash', client: 'c1', atUs: 5_000 };
    expect(live({ policy, locks: [[lock(0)], [lock(10_000)]], faults: [gone] })).toEqual([]);
    const early: Fault = { kind: 'client-crash', client: 'c1', atUs: 1_500 };
    const forgets = ['n0', 'n1', 'n2', 'n3', 'n4'].map((node): Fault => ({ kind: 'data-loss', node, atUs: 2_000_000 }));
    const orphaned = { ...never, locks: [[lock(0)], [lock(10_000)]] };
    expect(live({ ...orphaned, faults: [early] })).toEqual(['deadlock-free c2 10452000..10452000']);
    expect(live({ ...orphaned, faults: [early, ...forgets] })).toEqual(['deadlock-free c2 2450000..2450000']);
    const kept = live({
      policy: { ...policy, deviations: ['key-for-ever'] },
      locks: [[lock(0)], [lock(10_000)]],
      faults: [gone],
    });
    expect(kept).toEqual(['deadlock-free c2 10452000..10452000']);
  });

  it('is looked at again whenever somebody comes or goes', () => {
    const goes = (client: string, atUs: number): Fault => ({ kind: 'client-crash', client, atUs });
    // Waits for answers without end, and so has no deadline of its own that is looked at in between.
    const silent: Parts = { policy: { deviations: ['quorum:6', 'settles-by-quorum-only'] } };
    const frozen: Fault = { kind: 'pause', process: 'c3', atUs: 100_000, forUs: 500_000 };
    const faults = [goes('c1', 1_500), frozen, goes('c3', 5_000_000)];
    const calls = ['fault-tolerance c2 360000..360000', 'fault-tolerance c3 950000..950000'];
    const locks = [[lock(0)], [lock(10_000)], [lock(20_000, { resources: ['b'] })], []];
    expect(live({ ...silent, locks, faults, untilUs: 9_000_000 })).toEqual(calls);
    const gone = goes('c4', 1_000_000);
    expect(live({ ...silent, locks, faults: [...faults, gone], untilUs: 9_000_000 })).toEqual([
      'deadlock-free c3 1450000..1450000',
      ...calls,
    ]);
  });

  it('is let down by what sets its own key and is not sent a release', () => {
    expect(live({ policy: { ...policy, deviations: ['cleans-nothing'] }, locks: [[lock(0)]], fates: [] })).toEqual([]);
  });
});

describe('a call, by its trace', () => {
  it('is over within its own time, by its clock, and again after a pause', () => {
    const faults = ['n0', 'n1', 'n2'].map(hung);
    const locks = [[lock(0, { ttlMs: 1_000 })]];
    const patient = { settings: { nodeTimeoutUs: null, tries: 1 } };
    expect(live({ policy: patient, locks, faults })).toEqual(['fault-tolerance c1 1000000..1000000']);
    expect(live({ policy: { settings: { tries: 1 } }, locks, faults })).toEqual([]);
    const frozen: Fault = { kind: 'pause', process: 'c1', atUs: 400_000, forUs: 5_000 };
    expect(live({ policy: patient, locks, faults: [...faults, frozen] })).toEqual([
      'fault-tolerance c1 1405000..1405000',
    ]);
    const cluster = { clocks: [{ process: 'c1', offsetUs: 0, ratePpm: -500_000 }] };
    expect(live({ cluster, policy: patient, locks, faults })).toEqual(['fault-tolerance c1 2000002..2000002']);
  });

  it('that releases is over after one time-out', () => {
    const lost: Fate[] = ['n0', 'n1', 'n2'].map((node) => {
      return { client: 'c1', operation: 'release', node, direction: 'reply', lost: true };
    });
    const locks = [[lock(0, { holdUs: 5_000 })]];
    expect(live({ locks, fates: lost })).toEqual([]);
    expect(live({ policy: { settings: { nodeTimeoutUs: null } }, locks, fates: lost })).toEqual([
      'fault-tolerance c1 10007000..10007000',
    ]);
    // What the network sends again is no new try.
    const again: Fate = {
      client: 'c1',
      operation: 'release',
      node: 'n0',
      direction: 'request',
      resendAfterUs: 10_000,
    };
    const inTurn = {
      settings: { nodeTimeoutUs: null },
      deviations: ['releases-in-turn', 'release-awaits-all'],
    } as const;
    const faults: Fault[] = [{ kind: 'crash', node: 'n0', atUs: 5_000, restartAfterUs: null }];
    expect(live({ policy: inTurn, locks, faults, fates: [again] })).toEqual(['fault-tolerance c1 10007000..10007000']);
    const unheard: Fate = { client: 'c1', operation: 'release', node: 'n0', direction: 'reply', send: 2, lost: true };
    const back: Fault[] = [{ kind: 'crash', node: 'n0', atUs: 5_000, restartAfterUs: 0 }];
    const byHash = { cluster: { scripts: 'by-hash' }, policy: inTurn, locks, faults: back } as const;
    expect(live({ ...byHash, fates: [unheard] })).toEqual(['fault-tolerance c1 10007000..10007000']);
  });

  it('does not give up before its tries are used up, nor burn them', () => {
    const faults = ['n0', 'n1', 'n2'].map(dead);
    expect(live({ policy: { settings: { tries: 3 } }, faults })).toEqual([]);
    expect(live({ policy: { settings: { tries: 3 }, deviations: ['error-aborts'] }, faults })).toEqual([
      'fault-tolerance c1 50000..50000',
    ]);
    expect(live({ policy: { settings: { tries: 3 }, deviations: ['no-pauses'] }, faults })).toEqual([
      'deadlock-free c1 150000..150000',
    ]);
  });
});

it('a lock that extends itself for ever is told of after eleven TTLs, by its trace', () => {
  const auto = { settings: { autoExtendAtUs: 500_000, autoExtendSpacingUs: 0 } } as const;
  const locks = [[lock(0, { ttlMs: 1_000 })]];
  expect(live({ policy: { settings: { ...auto.settings, maxExtensions: null } }, locks })).toEqual([
    'deadlock-free c1 11002000..11002000',
  ]);
  // Also where nothing happens any more in the 98 ms until the end.
  expect(live({ policy: { settings: { ...auto.settings, maxExtensions: null } }, locks, untilUs: 11_100_000 })).toEqual(
    ['deadlock-free c1 11002000..11002000'],
  );
  expect(live({ policy: { settings: { ...auto.settings, maxExtensions: 10 } }, locks })).toEqual([]);
  const given = [[lock(0, { ttlMs: 1_000, holdUs: 25_000_000 })]];
  expect(live({ policy: { settings: { ...auto.settings, maxExtensions: null } }, locks: given })).toEqual([]);
});

describe('progress, by its trace', () => {
  const three = ['c1', 'c2', 'c3'];
  /** Each of three clients is nearest to another of three nodes: all ask at once, and nobody has two votes. */
  const distances = three.flatMap((client, near) =>
    [0, 1, 2].map((node) => ({ client, node: `n${node}`, delayUs: node === near ? 1_000 : 3_000 })),
  );
  const split: Parts = {
    cluster: { nodes: 3, distances },
    policy: { settings: { tries: null, retryJitterUs: 0 } },
    locks: three.map(() => [lock(0)]),
  };

  it('is missing when all have failed eleven times since the last disturbance', () => {
    expect(live(split)).toEqual(['progress c1+c2+c3 2266000..2266000']);
    expect(live({ ...split, policy: { settings: { tries: 10, retryJitterUs: 0 } } })).toEqual([]);
    const step: Fault = { kind: 'clock-step', process: 'n0', atUs: 1_000_000, byUs: 1 };
    expect(live({ ...split, faults: [step] })).toEqual(['progress c1+c2+c3 3296000..3296000']);
  });

  it('counts a round from the end of what disturbed it', () => {
    // Which is here a refusal of what nobody asks for. The rounds begin 206 ms apart, the first one after it at 1.236 s.
    const refusal = (forUs: number): Fault => ({
      kind: 'error-replies',
      node: 'n0',
      operations: ['extend'],
      atUs: 10_000,
      forUs,
    });
    expect(live({ ...split, faults: [refusal(1_020_000)] })).toEqual(['progress c1+c2+c3 3296000..3296000']);
    expect(live({ ...split, faults: [refusal(1_020_001)] })).toEqual(['progress c1+c2+c3 3502000..3502000']);
  });

  it('is missing where time does not go on', () => {
    const tight = {
      cluster: { delayUs: 0 },
      policy: { settings: { tries: null }, deviations: ['no-pauses'] },
      locks: [[lock(0)], [lock(1_000)]],
    };
    expect(live(tight)).toContain('progress c2 1000..1000');
  });
});
