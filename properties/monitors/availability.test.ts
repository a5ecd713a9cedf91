import { describe, expect, it } from 'vitest';
import { disagreementOn } from '../../bench/oracle/agreement.js';
import type { Fate, Fault } from '../../scenarios/index.js';
import { lock, type Parts, schedule, unreached } from '../../sim/testing/schedule.js';
import { judge } from '../judge.js';

/** The check of the trace has to find the same. */
function outages(parts: Parts): unknown[] {
  expect(disagreementOn(schedule(parts))).toBeNull();
  return judge(schedule(parts)).outages.map(({ fromUs, toUs, reason }) => [fromUs, toUs, reason]);
}

const crash = (node: string, atUs: number, restartAfterUs: number | null): Fault => {
  return { kind: 'crash', node, atUs, restartAfterUs };
};

describe('while too few nodes are up', () => {
  it('nobody can acquire, from the fall below the quorum to its return', () => {
    const faults = [crash('n0', 1_000, 9_000), crash('n1', 2_000, 1_000_000), crash('n2', 3_000, 2_000_000)];
    expect(outages({ faults })).toEqual([[3_000, 10_000, 'no-quorum-up']]);
  });

  it('counts from the start where nobody could ever acquire', () => {
    const cluster = { nodes: 3 };
    expect(outages({ cluster, policy: { deviations: ['quorum:4'] } })).toEqual([[0, 30_000_000, 'no-quorum-up']]);
    expect(outages({ cluster, policy: { deviations: ['quorum:3'] }, locks: [[]] })).toEqual([]);
  });

  it('counts an outage that is not over, and none that takes no time', () => {
    expect(outages({ cluster: { nodes: 1 }, faults: [crash('n0', 5_000_000, null)] })).toEqual([
      [5_000_000, 30_000_000, 'no-quorum-up'],
    ]);
    expect(outages({ cluster: { nodes: 1 }, faults: [crash('n0', 5_000_000, 0)] })).toEqual([]);
  });

  it('goes on where a node is back as another goes down', () => {
    const faults = [crash('n0', 1_000, 9_000), crash('n1', 2_000, null), crash('n2', 10_000, 20_000)];
    expect(outages({ cluster: { nodes: 3 }, faults })).toEqual([[2_000, 30_000, 'no-quorum-up']]);
  });

  it('a failover ends it', () => {
    const faults: Fault[] = [crash('n0', 1_000, null), { kind: 'failover', node: 'n0', atUs: 50_000 }];
    expect(outages({ cluster: { nodes: 1, replicaLagUs: 0 }, faults })).toEqual([[1_000, 50_000, 'no-quorum-up']]);
  });
});

describe('of clients with lists of their own', () => {
  const views = [{ nodes: ['n0'] }, { nodes: ['n0'] }];
  const move = (client: string, atUs: number): Fault => ({ kind: 'reconfigure', client, atUs, nodes: ['n1'] });
  const of = (faults: Fault[]): unknown[] =>
    outages({ cluster: { nodes: 2, replicaLagUs: 0 }, locks: [[lock(0)], []], views, faults });

  it('none can acquire until the first of them knows of a quorum that is up', () => {
    const takeOver: Fault = { kind: 'failover', node: 'n0', to: 'n1', atUs: 20_000 };
    const faults = [crash('n0', 1_000, null), takeOver, move('c2', 50_000), move('c1', 90_000)];
    expect(of(faults)).toEqual([[1_000, 50_000, 'no-quorum-up']]);
  });

  it('a node that none of them knows of may be down', () => {
    expect(of([crash('n1', 1_000, null)])).toEqual([]);
  });
});

describe('a wait that never ends', () => {
  const policy = { settings: { tries: null } };
  const cutOff = (client: string): Fault => {
    return { kind: 'partition', atUs: 0, from: [client], to: ['n0', 'n1', 'n2'], oneWay: false, forUs: 60_000_000 };
  };

  it('is an outage from its beginning, or from the end of the last claim', () => {
    expect(outages({ policy, locks: [[lock(7_000)]], faults: [cutOff('c1')] })).toEqual([
      [7_000, 30_000_000, 'nobody-acquires'],
    ]);
    expect(outages({ policy, locks: [[lock(7_000)], [lock(8_000)]], faults: [cutOff('c1')] })).toEqual([
      [9_906_000, 30_000_000, 'nobody-acquires'],
    ]);
  });

  it('is told of once, however many wait', () => {
    const faults = [cutOff('c1'), cutOff('c2')];
    expect(outages({ policy, locks: [[lock(7_000)], [lock(8_000)]], faults })).toEqual([
      [7_000, 30_000_000, 'nobody-acquires'],
    ]);
  });

  it('is explained by an extension that was asked for, and not by one that never was', () => {
    const long = (holdUs: number | null): Parts => ({
      policy,
      locks: [[lock(0, { holdUs, ttlMs: 1_000, extensions: [{ afterUs: 500_000, ttlMs: 29_000 }] })], [lock(600_000)]],
      faults: [cutOff('c2')],
    });
    const isTold = (holdUs: number | null): boolean => String(outages(long(holdUs))).includes('nobody-acquires');
    expect(isTold(550_000)).toBe(false);
    expect(outages(long(400_000))).toEqual([[600_000, 30_000_000, 'nobody-acquires']]);
  });

  it('is none while somebody holds the lock, or its key may still be there', () => {
    const locks = [[lock(0, { ttlMs: 60_000 })], [lock(5_000, { ttlMs: 1_000 })]];
    expect(outages({ policy, locks })).toEqual([]);
    const lost: Fault = { kind: 'client-crash', client: 'c1', atUs: 4_000 };
    expect(outages({ policy, locks, faults: [lost] })).toEqual([[4_000, 30_000_000, 'orphaned-keys']]);
  });

  it('is none for who has only just come', () => {
    expect(outages({ policy, locks: [[lock(0, { holdUs: 10 })], [lock(29_999_000)]] })).toEqual([]);
  });

  it('is none for who is frozen, dead, or has given up', () => {
    const frozen: Fault = { kind: 'pause', process: 'c1', atUs: 1_000, forUs: 30_000_000 };
    expect(outages({ policy, faults: [frozen] })).toEqual([]);
    expect(outages({ policy, faults: [cutOff('c1'), { kind: 'client-crash', client: 'c1', atUs: 1_000 }] })).toEqual(
      [],
    );
    expect(outages({ faults: [cutOff('c1')] })).toEqual([]);
  });

  it('is not told of twice where nodes were down for most of it', () => {
    const faults = [crash('n0', 0, 29_000_000), crash('n1', 0, 29_000_000), crash('n2', 0, 29_000_000)];
    expect(outages({ policy, locks: [[lock(0)]], faults, untilUs: 29_100_000 })).toEqual([
      [0, 29_000_000, 'no-quorum-up'],
    ]);
  });
});

describe('orphaned keys', () => {
  const orphaned = (parts: Parts): unknown[] => outages(parts).filter((it) => String(it).includes('orphaned'));
  const dies = (atUs: number): Fault => ({ kind: 'client-crash', client: 'c1', atUs });
  const cutOff = (atUs: number, forUs: number): Fault => {
    return { kind: 'partition', atUs, from: ['c1'], to: ['n0', 'n1', 'n2', 'n3', 'n4'], oneWay: false, forUs };
  };

  it('of a dead client keep everybody out until they expire, whether or not anybody asks', () => {
    expect(orphaned({ faults: [dies(5_000)] })).toEqual([[5_000, 10_002_000, 'orphaned-keys']]);
    expect(orphaned({ faults: [dies(1_500)] })).toEqual([[1_500, 10_002_000, 'orphaned-keys']]);
  });

  it('are those of a lock whose release was lost', () => {
    const locks = [[lock(0, { holdUs: 998_000 })]];
    expect(orphaned({ locks, faults: [cutOff(999_999, 2)] })).toEqual([[1_000_000, 10_002_000, 'orphaned-keys']]);
    expect(orphaned({ locks, faults: [cutOff(1_000_001, 2)] })).toEqual([]);
  });

  it('are not those that a release removes within a time-out, nor those of a claim that has just ended', () => {
    expect(orphaned({ locks: [[lock(0, { holdUs: 5_000 })]] })).toEqual([]);
    expect(orphaned({})).toEqual([]);
    const slow = (delayUs: number): Parts => ({
      policy: { settings: { nodeTimeoutUs: 500_000 } },
      cluster: { delayUs },
      locks: [[lock(0, { holdUs: 5_000 })]],
    });
    expect(orphaned(slow(500_000))).toEqual([]);
    expect(
      orphaned({ ...slow(500_001), policy: { settings: { nodeTimeoutUs: 500_000, votesWanted: 'all' } } }),
    ).toEqual([]);
  });

  it('begin when a node less is up, if that makes the difference', () => {
    const fates = ['n3', 'n4'].map((node) => ({
      client: 'c1',
      operation: 'release' as const,
      node,
      direction: 'request' as const,
      lost: true,
    }));
    const locks = [[lock(0, { holdUs: 98_000 })]];
    expect(orphaned({ locks, fates })).toEqual([]);
    expect(orphaned({ locks, fates, faults: [crash('n0', 150_000, null)] })).toEqual([
      [150_000, 10_002_000, 'orphaned-keys'],
    ]);
    expect(orphaned({ locks, fates, faults: [crash('n0', 150_000, 1_000_000)] })).toEqual([
      [150_000, 1_150_000, 'orphaned-keys'],
    ]);
  });

  it('are keys that outlive their TTL on nodes that were set back', () => {
    const back = (node: string): Fault => ({ kind: 'clock-step', process: node, atUs: 5_000, byUs: -5_000_000 });
    const three = ['n0', 'n1', 'n2'].map(back);
    expect(orphaned({ faults: three })).toEqual([[10_002_000, 15_002_000, 'orphaned-keys']]);
    expect(orphaned({ faults: three.slice(1) })).toEqual([]);
  });

  it('are orphans no more once their client believes in them again, or another holds the lock', () => {
    const policy = { deviations: ['extends-late', 'extends-missing'] } as const;
    const late = lock(0, { extensions: [{ afterUs: 9_999_000, ttlMs: 10_000 }] });
    const back = ['n0', 'n1', 'n2'].map((process): Fault => ({ kind: 'clock-step', process, atUs: 5, byUs: -90_000 }));
    expect(orphaned({ policy, locks: [[late]], faults: back })).toEqual([]);
  });

  it('are told of from their beginning, whatever else happens before they count', () => {
    expect(orphaned({ faults: [dies(5_000), crash('n4', 20_000, null)] })).toEqual([
      [5_000, 10_002_000, 'orphaned-keys'],
    ]);
    const late = { client: 'c1', operation: 'acquire', node: 'n4', direction: 'request', delayUs: 200_000 } as const;
    const gone: Fault = { kind: 'data-loss', node: 'n3', atUs: 210_000 };
    expect(orphaned({ fates: [late], faults: [dies(5_000), gone] })).toEqual([[5_000, 10_002_000, 'orphaned-keys']]);
  });

  it('make one outage with what came in between, and was no more than a moment', () => {
    const lostOn = (client: string, ...nodes: readonly string[]): Fate[] =>
      nodes.map((node) => ({ client, operation: 'release', node, direction: 'request', lost: true }));
    const late: Fate = { client: 'c2', operation: 'acquire', node: 'n3', direction: 'request', delayUs: 180_000 };
    const parts: Parts = {
      policy: { settings: { tries: 1 }, deviations: ['quorum:4'] },
      locks: [[lock(0, { holdUs: 3_000 })], [lock(20_000)]],
      fates: [...lostOn('c1', 'n0', 'n3'), ...lostOn('c2', 'n3'), late],
      faults: [{ kind: 'data-loss', node: 'n3', atUs: 200_000 }, crash('n2', 220_000, 1_000)],
    };
    expect(orphaned(parts)).toEqual([[5_000, 10_002_000, 'orphaned-keys']]);
  });

  it('are in the way while somebody claims who dies in that instant, and not while one believes for longer', () => {
    // c1's keys are orphans from 5 ms on; at 50 ms c2 takes five time-outs for votes.
    const claims = (diesAtUs: number): unknown[] =>
      orphaned({
        policy: { settings: { tries: 1 }, deviations: ['error-is-vote'] },
        locks: [[lock(0)], [lock(4_000)]],
        fates: unreached('c2', 'n0', 'n1', 'n2', 'n3', 'n4'),
        faults: [dies(5_000), { kind: 'client-crash', client: 'c2', atUs: diesAtUs, edge: 'after' }],
      });
    expect(claims(54_000)).toEqual([[5_000, 10_002_000, 'orphaned-keys']]);
    expect(claims(54_001)).toEqual([[54_001, 10_002_000, 'orphaned-keys']]);
  });

  it('that came late are in the way as soon as the others, where those get there sooner than was thought', () => {
    // Set on n3 at 9 s and on n4 at 10.5 s: the TTL of c1's claim is over at 19 001 ms, or c1 dies before.
    const slow = (node: string, delayUs: number): Fate => {
      return { client: 'c1', operation: 'acquire', node, direction: 'request', delayUs };
    };
    const parts = (diesAtUs: number): Parts => ({
      fates: [slow('n3', 9_000_000), slow('n4', 10_500_000)],
      faults: [crash('n0', 9_500_000, null), dies(diesAtUs)],
    });
    expect(orphaned(parts(11_000_000))).toEqual([[11_000_000, 19_001_000, 'orphaned-keys']]);
    expect(orphaned(parts(19_001_000))).toEqual([]);
  });

  it('that come late do not make those of another resource younger', () => {
    const copy: Fate = {
      client: 'c1',
      operation: 'acquire',
      node: 'n2',
      direction: 'request',
      duplicateDelayUs: 30_000,
    };
    const forget = (node: string, atUs: number, resource?: string): Fault => {
      return { kind: 'data-loss', node, atUs, ...(resource === undefined ? {} : { resource }) };
    };
    const parts: Parts = {
      policy: { settings: { tries: 1 }, deviations: ['own-key-grants'] },
      locks: [[lock(0, { resources: ['a', 'b'] })]],
      fates: [copy],
      faults: [forget('n0', 4_000), forget('n1', 4_000), dies(5_000), forget('n2', 10_000, 'a')],
    };
    expect(orphaned(parts)).toEqual([
      [5_000, 10_002_000, 'orphaned-keys'],
      [30_000, 10_002_000, 'orphaned-keys'],
    ]);
  });

  it('are still in the way by the same keys where enough nodes go and come in one instant', () => {
    // From 120 ms on c1's keys on n0 and n1 are enough; c2's would have been in the way from 105 ms on.
    const parts = (backAfterUs: number): Parts => ({
      cluster: { persistence: 'always' },
      policy: { settings: { tries: 1 } },
      locks: [[lock(0)], [lock(100_000)]],
      fates: unreached('c1', 'n2', 'n3', 'n4'),
      faults: [
        dies(3_000),
        { kind: 'client-crash', client: 'c2', atUs: 105_000 },
        crash('n3', 120_000, null),
        crash('n0', 160_000, null),
        crash('n2', 200_000, backAfterUs),
      ],
    });
    expect(orphaned(parts(0))).toEqual([[120_000, 10_102_000, 'orphaned-keys']]);
    expect(orphaned(parts(1_000))).toEqual([
      [120_000, 200_000, 'orphaned-keys'],
      [201_000, 10_102_000, 'orphaned-keys'],
    ]);
  });

  it('are in the way of their own resource only', () => {
    const locks = [[lock(0, { resources: ['a', 'b'] })]];
    const faults = ['n0', 'n1', 'n2'].map((node): Fault => ({ kind: 'data-loss', node, resource: 'a', atUs: 100_000 }));
    expect(orphaned({ locks, faults: [dies(5_000), ...faults] })).toEqual([
      [5_000, 100_000, 'orphaned-keys'],
      [5_000, 10_002_000, 'orphaned-keys'],
    ]);
  });

  it('are in the way from the end of a claim by its clock, though its client is frozen and not told', () => {
    const lost = ['n3', 'n4'].map((node) => ({
      client: 'c2',
      operation: 'release' as const,
      node,
      direction: 'request' as const,
      lost: true,
    }));
    const frozen: Fault = { kind: 'pause', process: 'c1', atUs: 5_000, forUs: 20_000_000 };
    const parts: Parts = {
      policy: { settings: { tries: 1 } },
      locks: [[lock(0)], [lock(3_000)]],
      fates: [...unreached('c1', 'n3', 'n4'), ...lost],
      faults: [frozen, crash('n2', 9_000_000, null)],
    };
    // c2's keys are on n3 and n4 from 4 ms on.
    expect(orphaned(parts)).toEqual([[9_898_000, 10_005_000, 'orphaned-keys']]);
  });

  it('are in the way between the end of a claim and an extension that is heard of later', () => {
    // c2 believes until 988 ms, and again from 1.303 s to 10.4 s; what c1 has left behind is there from 30 ms on.
    const extensions = [{ afterUs: 500_000, ttlMs: 10_000 }];
    const late = { client: 'c2', operation: 'extend', node: 'n0', direction: 'reply', delayUs: 800_000 } as const;
    const parts: Parts = {
      cluster: { nodes: 1 },
      policy: { settings: { nodeTimeoutUs: null }, deviations: ['refusal-extends', 'no-alarm', 'extends-late'] },
      locks: [[lock(20_000, { ttlMs: 60_000 })], [lock(0, { ttlMs: 1_000, extensions })]],
      faults: [
        { kind: 'data-loss', node: 'n0', atUs: 10_000 },
        { kind: 'client-crash', client: 'c1', atUs: 30_000 },
      ],
    };
    const toTheEnd = [10_400_000, 30_000_000, 'orphaned-keys'];
    expect(outages({ ...parts, fates: [late] })).toEqual([[988_000, 1_303_000, 'orphaned-keys'], toTheEnd]);
    expect(outages({ ...parts, fates: [{ ...late, delayUs: 400_000 }] })).toEqual([toTheEnd]);
  });

  it('are in the way while a belief is back that ends in that instant', () => {
    // c1 is frozen, and lapsed at 9 898 ms; at 10.08 s its clock goes back, and it dies; c2's keys are orphans from 10.05 s on.
    const frozen: Fault = { kind: 'pause', process: 'c1', atUs: 5_000, forUs: 20_000_000 };
    const parts = (diesAtUs: number): Parts => ({
      policy: { settings: { tries: 1 }, habits: { clock: 'wall' } },
      locks: [[lock(0)], [lock(10_003_000)]],
      faults: [
        frozen,
        { kind: 'client-crash', client: 'c2', atUs: 10_050_000 },
        { kind: 'clock-step', process: 'c1', atUs: 10_080_000, byUs: -5_000_000 },
        { kind: 'client-crash', client: 'c1', atUs: diesAtUs, edge: 'after' },
      ],
    });
    expect(orphaned(parts(10_080_000))).toEqual([[10_050_000, 20_005_000, 'orphaned-keys']]);
    expect(orphaned(parts(10_080_001))).toEqual([[10_080_001, 20_005_000, 'orphaned-keys']]);
  });

  it('of one lock are taken over by the next with its token, and are in the way no more', () => {
    const policy = {
      settings: { tries: 1 },
      deviations: ['token-per-call', 'own-key-grants'],
      habits: { tokenPerProcess: true },
    } as const;
    const lost = cutOff(2_500, 20_000);
    const locks = [[lock(0, { holdUs: 2_000 }), lock(1_000_000, { ttlMs: 20_000 })]];
    expect(orphaned({ policy, locks, faults: [lost] })).toEqual([[4_000, 1_000_000, 'orphaned-keys']]);
    expect(orphaned({ policy, locks: [locks[0]?.slice(0, 1) ?? []], faults: [lost] })).toEqual([
      [4_000, 10_002_000, 'orphaned-keys'],
    ]);
  });
});
