import { describe, expect, it } from 'vitest';
import { policyOf } from '../deviations/index.js';
import { findScenario, loadCatalogue } from '../scenarios/catalogue.js';
import type { Fault, LockPlan } from '../scenarios/index.js';

import { lock, type Parts, schedule } from '../sim/testing/schedule.js';
import { type Assumption, assumptions } from './assumptions.js';

function broken(parts: Parts, votes?: number): Assumption[] {
  const plan = schedule(parts);
  return assumptions(plan, policyOf(plan.policy), votes === undefined ? {} : { votes });
}

const ten = [lock(0)];
const rate = (process: string, ratePpm: number) => ({ process, offsetUs: 0, ratePpm });
const step = (process: string, byUs: number): Fault => ({ kind: 'clock-step', process, atUs: 5, byUs });
const crash = (node: string, restartAfterUs: number | null): Fault => ({
  kind: 'crash',
  node,
  atUs: 5,
  restartAfterUs,
});

describe('clock rates', () => {
  const both = (ppm: number, ttlMs: number, cluster: Parts['cluster'] = {}): Assumption[] =>
    broken({ locks: [[lock(0, { ttlMs })]], cluster: { clocks: [rate('c1', -ppm), rate('n3', ppm)], ...cluster } });

  // r* of the theory for D = 1 % + 2 ms, in %: 1.5228, 0.6036, 0.5151, 0.5126 and 0.50588; at 50 ms, D is 3 ms here.
  it.each([
    [50, 30_927],
    [100, 15_228],
    [1_000, 6_036],
    [8_000, 5_151],
    [10_000, 5_126],
    [30_000, 5_058],
  ])('with a TTL of %i ms may differ by %i ppm on both sides, and no more', (ttlMs, ppm) => {
    expect(both(ppm, ttlMs)).toEqual([]);
    expect(both(ppm + 1, ttlMs)).toEqual(['clock-drift']);
  });

  it.each([
    [100, 10_204],
    [10_000, 5_076],
  ])('with a TTL of %i ms and keys that end at their time may differ by %i ppm', (ttlMs, ppm) => {
    expect(both(ppm, ttlMs, { expiry: 'at' })).toEqual([]);
    expect(both(ppm + 1, ttlMs, { expiry: 'at' })).toEqual(['clock-drift']);
  });

  it('are not to blame for keys that end at their time where time stamps are cut where the nodes tick', () => {
    const at = (parts: Parts['policy'], clocks: NonNullable<Parts['cluster']>['clocks'] = [], faults: Fault[] = []) =>
      broken({
        policy: { settings: { driftPpm: 0, driftUs: 0 }, ...parts },
        cluster: { expiry: 'at', clocks },
        faults,
      });
    const cut = { deviations: ['stamps-us:1000', 'deadline-stamps-us:1000'], habits: { clock: 'wall' } } as const;
    expect(at(cut)).toEqual([]);
    expect(at(cut, [{ process: 'n0', offsetUs: 7_000, ratePpm: 0 }])).toEqual([]);
    // Neither whole stamps nor clocks that tick together are enough alone.
    expect(at({})).toEqual(['clock-drift']);
    expect(at({ ...cut, deviations: ['stamps-us:1000', 'deadline-counted-after-us:0'] })).toEqual(['clock-drift']);
    expect(at({ ...cut, deviations: ['stamps-us:1000'] })).toEqual(['clock-drift']);
    expect(at(cut, [{ process: 'c1', offsetUs: 999, ratePpm: 0 }])).toEqual(['clock-drift']);
    expect(at(cut, [rate('n0', 1)])).toContain('clock-drift');
    expect(at(cut, [], [step('n0', 999)])).toContain('clock-drift');
    // A step by a whole tick is one, and nothing else.
    expect(at(cut, [], [step('n0', 1_000)])).toEqual(['clock-step']);
  });

  it('may differ more where one side alone does, and as they like in the harmless direction', () => {
    const one = (process: string, ppm: number): Assumption[] => broken({ cluster: { clocks: [rate(process, ppm)] } });
    expect(one('n0', 10_305)).toEqual([]);
    expect(one('n0', 10_306)).toEqual(['clock-drift']);
    expect(one('c1', -10_200)).toEqual([]);
    expect(one('c1', -10_201)).toEqual(['clock-drift']);
    expect(one('n0', -500_000)).toEqual([]);
    expect(one('c1', 500_000)).toEqual([]);
  });

  it('count whenever they change', () => {
    const faults: Fault[] = [{ kind: 'clock-drift', process: 'n0', atUs: 9, ratePpm: 10_306 }];
    expect(broken({ faults })).toEqual(['clock-drift']);
  });

  it('are held against the shortest and the longest TTL, extensions included', () => {
    const clocks = [rate('n0', 12_000)];
    const extended = lock(0, { ttlMs: 1_000, extensions: [{ afterUs: 5, ttlMs: 10_000 }] });
    expect(broken({ cluster: { clocks }, locks: [[lock(0, { ttlMs: 1_000 })]] })).toEqual([]);
    expect(broken({ cluster: { clocks }, locks: [[extended]] })).toEqual(['clock-drift']);
  });
});

describe('clock steps', () => {
  const wall = { habits: { clock: 'wall' } } as const;

  it('may use up the drift allowance: nodes forward and clients backward, together', () => {
    expect(broken({ faults: [step('n0', 102_000)] })).toEqual([]);
    expect(broken({ faults: [step('n0', 102_001)] })).toEqual(['clock-step']);
    expect(broken({ faults: [step('c1', -102_001)], policy: wall })).toEqual(['clock-step']);
    expect(broken({ faults: [step('n0', 60_000), step('c1', -42_000)], policy: wall })).toEqual([]);
    expect(broken({ faults: [step('n0', 60_000), step('c1', -42_001)], policy: wall })).toEqual(['clock-step']);
    expect(broken({ faults: [step('n0', 60_000), step('n0', 60_000)] })).toEqual(['clock-step']);
  });

  it('are harmless in the other direction', () => {
    expect(broken({ faults: [step('n0', -9_000_000), step('c1', 9_000_000)], policy: wall })).toEqual([]);
  });

  it('of a client concern its wall clock, even if its lock reads another', () => {
    for (const clock of ['boot', 'monotonic'] as const) {
      expect(broken({ faults: [step('c1', -9_000_000)], policy: { habits: { clock } } })).toEqual([]);
    }
  });

  it('include the time for which a clock stops', () => {
    const sleep = (forUs: number, stops?: 'all'): Fault => ({
      kind: 'suspend',
      process: 'c1',
      atUs: 5,
      forUs,
      ...(stops === undefined ? {} : { stops }),
    });
    const slept = (fault: Fault, clock: 'boot' | 'monotonic' | 'wall'): Assumption[] =>
      broken({ faults: [fault], policy: { habits: { clock } } });
    expect(slept(sleep(102_000), 'monotonic')).toEqual([]);
    expect(slept(sleep(102_001), 'monotonic')).toEqual(['clock-step']);
    expect(slept(sleep(20_000_000), 'boot')).toEqual([]);
    expect(slept(sleep(20_000_000), 'wall')).toEqual([]);
    for (const clock of ['boot', 'monotonic', 'wall'] as const) {
      expect(slept(sleep(102_000, 'all'), clock)).toEqual([]);
      expect(slept(sleep(102_001, 'all'), clock)).toEqual(['clock-step']);
    }
  });
});

describe('durability', () => {
  const wall = { habits: { clock: 'wall' } } as const;

  it('may be lost by a node that stays away until every claim it voted for is over', () => {
    expect(broken({ faults: [crash('n0', 9_898_000)] })).toEqual([]);
    expect(broken({ faults: [crash('n0', 9_897_999)] })).toEqual(['durability']);
    expect(broken({ faults: [crash('n0', null)] })).toEqual([]);
  });

  it('is asked for longer where a client is slow or set back, or some lock lasts longer', () => {
    const clocks = [rate('c1', -10_000)];
    expect(broken({ cluster: { clocks }, faults: [crash('n0', 9_997_979)] })).toEqual(['durability']);
    expect(broken({ cluster: { clocks }, faults: [crash('n0', 9_997_980)] })).toEqual([]);
    expect(broken({ faults: [crash('n0', 9_898_099), step('c1', -100)], policy: wall })).toEqual(['durability']);
    expect(broken({ faults: [crash('n0', 9_898_100), step('c1', -100)], policy: wall })).toEqual([]);
    const locks = [ten, [lock(0, { ttlMs: 10_100 })]];
    expect(broken({ locks, faults: [crash('n0', 9_898_000)] })).toEqual(['durability']);
  });

  it('is never lost with persistence', () => {
    expect(broken({ cluster: { persistence: 'always' }, faults: [crash('n0', 0)] })).toEqual([]);
  });

  it('may be lost by one node for each vote beyond the quorum, clocks counted in', () => {
    const faults = [crash('n0', 0), crash('n1', 0)];
    expect(broken({ faults }, 3)).toEqual(['durability']);
    expect(broken({ faults }, 4)).toEqual(['durability']);
    expect(broken({ faults }, 5)).toEqual([]);
    expect(broken({ faults: [...faults, crash('n1', 0)] }, 5)).toEqual([]);
    expect(broken({ faults: [crash('n0', 0), step('n1', 200_000)] }, 4)).toEqual(['clock-step', 'durability']);
    // A slow client is slow against all nodes.
    expect(broken({ cluster: { clocks: [rate('c1', -10_201)] } }, 5)).toEqual(['clock-drift']);
  });
});

describe('replicas', () => {
  it('that take over are assumed to have everything', () => {
    const faults: Fault[] = [{ kind: 'failover', node: 'n0', atUs: 5 }];
    expect(broken({ cluster: { replicaLagUs: 1 }, faults })).toEqual(['durable-failover']);
    expect(broken({ cluster: { replicaLagUs: 0 }, faults })).toEqual([]);
  });
});

describe('effects', () => {
  const prompt = (fields: Partial<LockPlan>, faults: Fault[] = [], cluster: Parts['cluster'] = {}): boolean => {
    const found = broken({ locks: [[lock(0, fields)]], policy: { habits: { clock: 'wall' } }, faults, cluster });
    return !found.includes('bounded-write-delay');
  };
  const write = (guardUs: number | null): Partial<LockPlan> => ({
    writes: [{ checkAfterUs: 1_000, guardUs, sendAfterUs: 3_000, delayUs: 500 }],
  });

  it('need a guard that is longer than the time to their arrival', () => {
    expect(prompt(write(null))).toBe(false);
    expect(prompt(write(2_500))).toBe(false);
    expect(prompt(write(2_501))).toBe(true);
  });

  it('need one that covers pauses, and a clock that is fast or jumps ahead', () => {
    for (const kind of ['pause', 'suspend'] as const) {
      const frozen: Fault = { kind, process: 'c1', atUs: 4_000, forUs: 1_000 };
      expect(prompt(write(3_500), [frozen])).toBe(false);
      expect(prompt(write(3_501), [frozen])).toBe(true);
    }
    expect(prompt(write(2_600), [step('c1', 100)])).toBe(false);
    expect(prompt(write(2_601), [step('c1', 100)])).toBe(true);
    const fast = { clocks: [rate('c1', 500_000)] };
    expect(prompt(write(2_751), [], fast)).toBe(false);
    expect(prompt(write(2_752), [], fast)).toBe(true);
  });

  it('must come before the release, and not from the dead', () => {
    expect(prompt({ ...write(9_000), holdUs: 3_499 })).toBe(false);
    expect(prompt({ ...write(9_000), holdUs: 3_500 })).toBe(true);
    expect(prompt(write(9_000), [{ kind: 'client-crash', client: 'c1', atUs: 9 }])).toBe(false);
  });
});

describe('what a crash costs', () => {
  const at = (cluster: Parts['cluster'], fields: Partial<Extract<Fault, { kind: 'crash' }>>): Assumption[] =>
    broken({ cluster: cluster ?? {}, faults: [{ ...crash('n0', 0), ...fields } as Fault] });
  const aof = { persistence: 'everysec' } as const;

  it('is nothing after a shutdown in order, or where votes waited for the disk', () => {
    expect(at(aof, { power: true })).toEqual(['durability']);
    expect(at(aof, { clean: true })).toEqual([]);
    expect(at({ ...aof, answers: 'durable' }, { power: true })).toEqual([]);
    expect(at({ persistence: 'always' }, { power: true })).toEqual([]);
    expect(at({ persistence: 'always', answers: 'executed' }, { power: true })).toEqual(['durability']);
  });

  it('depends on who measures the restart delay', () => {
    const away = (restartAfterUs: number, ...more: Fault[]): Assumption[] =>
      broken({ locks: [ten], faults: [{ ...crash('n0', restartAfterUs), restartBy: 'node-clock' } as Fault, ...more] });
    expect(away(9_898_000)).toEqual([]);
    expect(away(9_898_000, step('n0', 5))).toEqual(['durability']);
    expect(away(9_898_005, step('n0', 5))).toEqual([]);
  });
});

describe('the nodes', () => {
  const two = [[lock(0)], [lock(0)]];
  const move = (client: string, ...nodes: string[]): Fault => ({ kind: 'reconfigure', atUs: 9, client, nodes });
  const three = ['n0', 'n1', 'n2'];

  it('may be any, in any order, if all clients have the same at all times', () => {
    expect(broken({ locks: two, views: [{ nodes: three }, { nodes: ['n2', 'n0', 'n1'] }] })).toEqual([]);
    expect(broken({ locks: two, views: [{ nodes: three }, {}] })).toEqual(['same-membership']);
    expect(broken({ locks: two, faults: [move('c2', 'n0', 'n1', 'n2', 'n3', 'n4')] })).toEqual([]);
    expect(broken({ locks: two, faults: [move('c2', ...three)] })).toEqual(['same-membership']);
  });

  it('are there once each, under the same keys', () => {
    const twice = { nodes: [...three, 'n0'] };
    expect(broken({ locks: two, views: [twice, twice] })).toEqual(['same-membership']);
    expect(broken({ locks: two, views: [{ keyPrefix: 'x:' }, { keyPrefix: 'x:' }] })).toEqual([]);
    expect(broken({ locks: two, views: [{ keyPrefix: 'x:' }, {}] })).toEqual(['same-membership']);
  });

  it('may change to a replica that takes over from a dead master with all it had', () => {
    const cluster = { nodes: 2, replicaLagUs: 0 };
    const views = [{ nodes: ['n0'] }, { nodes: ['n0'] }];
    const moves = [move('c1', 'n1'), move('c2', 'n1')];
    const takeOver: Fault = { kind: 'failover', atUs: 5, node: 'n0', to: 'n1' };
    const of = (...faults: Fault[]): Assumption[] => broken({ cluster, locks: two, views, faults });
    expect(of(crash('n0', null), takeOver, ...moves)).toEqual([]);
    expect(of(crash('n0', null), { ...takeOver, lagUs: 1 }, ...moves)).toEqual(['durable-failover']);
    expect(of(takeOver, ...moves)).toEqual(['durable-failover']);
  });

  it('have a clock that jumps where a replica with another clock takes over', () => {
    const ahead = (offsetUs: number): Assumption[] =>
      broken({
        cluster: { nodes: 2, replicaLagUs: 0, clocks: [{ process: 'n1', offsetUs, ratePpm: 0 }] },
        views: [{ nodes: ['n0'] }],
        faults: [crash('n0', null), { kind: 'failover', atUs: 5, node: 'n0', to: 'n1' }, move('c1', 'n1')],
      });
    expect(ahead(102_000)).toEqual([]);
    expect(ahead(102_001)).toEqual(['clock-step']);
    expect(ahead(-9_000_000)).toEqual([]);
  });
});

describe('the catalogue', () => {
  const known: Record<string, Assumption[]> = {
    S01: ['durable-failover'],
    S03: ['durability'],
    S05: ['durability'],
    S12: [],
    S13: ['durability'],
    S16: ['clock-step'],
    S23: [],
    S24: ['bounded-write-delay'],
    S38: ['same-membership'],
    S38b: ['same-membership'],
    S62: ['same-membership'],
    S63: ['clock-step'],
    S64: ['durable-failover'],
    S47: [],
  };

  it.each(Object.keys(known))('%s breaks what its story says', (id) => {
    const { schedule: plan } = findScenario(id, loadCatalogue());
    expect(assumptions(plan, policyOf(plan.policy))).toEqual(known[id]);
  });
});
