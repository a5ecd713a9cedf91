import { describe, expect, it } from 'vitest';
import type { Fault } from '../scenarios/index.js';
import { lock, type Parts, trace } from './testing/schedule.js';

/** What became of the keys of the only node: when, whose, and how. */
function keys(parts: Parts): unknown[] {
  return trace({ ...parts, cluster: { nodes: 1, ...parts.cluster } })
    .filter(({ kind }) => kind === 'key-set' || kind === 'key-lengthened' || kind === 'key-gone')
    .map(({ atUs, detail }) => [atUs, detail.owner, detail.how]);
}

/** When the key that c1 sets at 1 ms expires. */
function expiry(parts: Parts): unknown {
  return keys({ locks: [[lock(0, { ttlMs: 10 })]], untilUs: 100_000, ...parts }).at(-1);
}

describe('a key', () => {
  it.each([
    ['after', 1_000, 12_000],
    ['at', 1_000, 11_000],
    ['after', 1, 11_001],
    ['at', 1, 11_000],
  ] as const)('that expires %s its time, in steps of %i µs, is gone at %i', (kind, resolutionUs, at) => {
    expect(expiry({ cluster: { expiry: kind, resolutionUs } })).toEqual([at, 'c1', 'expired']);
  });

  it('counts whole milliseconds of its own node', () => {
    const clocks = (offsetUs: number, ratePpm = 0): Parts => ({
      cluster: { clocks: [{ process: 'n0', offsetUs, ratePpm }] },
    });
    expect(expiry(clocks(500))).toEqual([11_500, 'c1', 'expired']);
    expect(expiry(clocks(999))).toEqual([11_001, 'c1', 'expired']);
    expect(expiry(clocks(-1))).toEqual([11_001, 'c1', 'expired']);
    // On a clock twice as slow as one that is right: 0.5 ms is shown when it is set, 11 ms at the end.
    expect(expiry(clocks(0, -500_000))).toEqual([22_000, 'c1', 'expired']);
    expect(expiry(clocks(0, 500_000))).toEqual([8_000, 'c1', 'expired']);
  });

  it('goes at once when its node jumps past its end, and not a millisecond sooner', () => {
    const jump = (byUs: number): Parts => ({ faults: [{ kind: 'clock-step', process: 'n0', atUs: 5_000, byUs }] });
    expect(expiry(jump(7_000))).toEqual([5_000, 'c1', 'expired']);
    expect(expiry(jump(6_999))).toEqual([5_001, 'c1', 'expired']);
    expect(expiry(jump(-20_000))).toEqual([32_000, 'c1', 'expired']);
  });

  it('expires by the rate that its node has from then on', () => {
    const faults: Fault[] = [{ kind: 'clock-drift', process: 'n0', atUs: 2_000, ratePpm: -500_000 }];
    expect(expiry({ faults })).toEqual([22_000, 'c1', 'expired']);
  });

  it('of a thousand years does not expire', () => {
    const locks = [[lock(0, { ttlMs: 1_000 * 365 * 86_400_000 })]];
    expect(keys({ locks, untilUs: 2 ** 51 })).toEqual([[1_000, 'c1', 'set']]);
  });
});

describe('a command', () => {
  it('takes several resources or none', () => {
    const pair = (atUs: number, ...resources: string[]) => lock(atUs, { resources });
    const parts: Parts = {
      policy: { settings: { tries: 1 } },
      locks: [[pair(0, 'a', 'b')], [pair(10_000, 'b', 'c')]],
      untilUs: 20_000,
    };
    expect(keys(parts)).toEqual([
      [1_000, 'c1', 'set'],
      [1_000, 'c1', 'set'],
    ]);
  });

  it('that releases deletes the own key alone, unless the policy says DEL', () => {
    const locks = [[lock(0, { holdUs: 20_000, ttlMs: 10 })], [lock(12_000)]];
    const parts = (...deviations: string[]): Parts => ({ policy: { deviations }, locks, untilUs: 50_000 });
    const both = [
      [1_000, 'c1', 'set'],
      [12_000, 'c1', 'expired'],
      [13_000, 'c2', 'set'],
    ];
    expect(keys(parts())).toEqual(both);
    expect(keys(parts('deletes-any'))).toEqual([...both, [23_000, 'c2', 'deleted']]);
  });

  it('that extends lengthens a key and never shortens it', () => {
    const extend = (ttlMs: number): Parts => ({
      locks: [[lock(0, { ttlMs: 100, extensions: [{ afterUs: 8_000, ttlMs }] })]],
      untilUs: 500_000,
    });
    expect(keys(extend(200)).slice(1)).toEqual([
      [11_000, 'c1', 'lengthened'],
      [212_000, 'c1', 'expired'],
    ]);
    expect(keys(extend(50)).slice(1)).toEqual([[102_000, 'c1', 'expired']]);
  });

  it('that extends what is gone makes it again only where the policy says so', () => {
    const faults: Fault[] = [{ kind: 'crash', node: 'n0', atUs: 5_000, restartAfterUs: 0 }];
    const locks = [[lock(0, { extensions: [{ afterUs: 8_000, ttlMs: 10_000 }] })]];
    const parts = (...deviations: string[]): Parts => {
      return { policy: { deviations }, locks, faults, untilUs: 50_000 };
    };
    expect(keys(parts())).toHaveLength(2);
    expect(keys(parts('extends-missing')).at(-1)).toEqual([11_000, 'c1', 'set']);
    expect(keys(parts('extension-heals')).at(-1)).toEqual([11_000, 'c1', 'set']);
  });

  it('that heals undercuts no longer life, and what it sets after its release is released again', () => {
    const parts = (holdUs: number | null, ttlMs: number, delayUs: number, heals = true): Parts => ({
      cluster: { link: 'reordering' },
      policy: { deviations: [heals ? 'extension-heals' : 'extends-missing'] },
      locks: [[lock(0, { holdUs, extensions: [{ afterUs: 1_000, ttlMs }] })]],
      fates: [{ client: 'c1', operation: 'extend', node: 'n0', direction: 'request', delayUs }],
      untilUs: 11_000_000,
    });
    expect(keys(parts(null, 100, 1_000)).at(-1)).toEqual([10_002_000, 'c1', 'expired']);
    expect(keys(parts(null, 100, 1_000, false)).at(-1)).toEqual([105_000, 'c1', 'expired']);
    expect(keys(parts(5_000, 10_000, 9_000)).slice(1)).toEqual([
      [8_000, 'c1', 'deleted'],
      [12_000, 'c1', 'set'],
      [14_000, 'c1', 'deleted'],
    ]);
  });
});

describe('a restart', () => {
  const crash = (restartAfterUs: number): Fault[] => [{ kind: 'crash', node: 'n0', atUs: 5_000, restartAfterUs }];

  it('without persistence forgets, when the node is back', () => {
    expect(expiry({ faults: crash(1_000) })).toEqual([6_000, 'c1', 'forgotten']);
  });

  it('with persistence keeps what there was, with its absolute expiry', () => {
    const cluster = { persistence: 'always' } as const;
    expect(expiry({ cluster, faults: crash(1_000) })).toEqual([12_000, 'c1', 'expired']);
    expect(expiry({ cluster, faults: crash(20_000) })).toEqual([25_000, 'c1', 'expired']);
  });

  it('with persistence expires by a clock that changed meanwhile', () => {
    const step: Fault = { kind: 'clock-step', process: 'n0', atUs: 5_500, byUs: -10_000 };
    const cluster = { persistence: 'always' } as const;
    expect(expiry({ cluster, faults: [...crash(1_000), step] })).toEqual([22_000, 'c1', 'expired']);
  });
});

describe('a failover', () => {
  const failover = (atUs: number): Fault => ({ kind: 'failover', node: 'n0', atUs });
  const cluster = { replicaLagUs: 2_000 };

  it('keeps what reached the replica before the master was gone', () => {
    expect(expiry({ cluster, faults: [failover(3_000)] })).toEqual([12_000, 'c1', 'expired']);
    expect(expiry({ cluster, faults: [failover(2_999)] })).toEqual([2_999, 'c1', 'forgotten']);
  });

  it('counts from the death of the master, not from its own time', () => {
    const died: Fault = { kind: 'crash', node: 'n0', atUs: 2_999, restartAfterUs: null };
    expect(expiry({ cluster, faults: [died, failover(9_000)] })).toEqual([9_000, 'c1', 'forgotten']);
  });

  it('brings back a key whose deletion did not reach the replica', () => {
    const parts: Parts = { cluster, locks: [[lock(0, { ttlMs: 10, holdUs: 2_000 })]], untilUs: 30_000 };
    expect(keys({ ...parts, faults: [failover(6_999)] }).slice(1)).toEqual([
      [5_000, 'c1', 'deleted'],
      [6_999, 'c1', 'set'],
      [12_000, 'c1', 'expired'],
    ]);
    expect(keys({ ...parts, faults: [failover(7_000)] }).slice(1)).toEqual([[5_000, 'c1', 'deleted']]);
  });

  it('brings nothing back that an empty master has overwritten', () => {
    const restart: Fault = { kind: 'crash', node: 'n0', atUs: 4_000, restartAfterUs: 0 };
    expect(keys({ cluster, faults: [restart, failover(6_000)], untilUs: 9_000 }).at(-1)).toEqual([
      4_000,
      'c1',
      'forgotten',
    ]);
  });
});
