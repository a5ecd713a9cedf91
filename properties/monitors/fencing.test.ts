import { describe, expect, it } from 'vitest';
import type { Fate, Fault, WritePlan } from '../../scenarios/index.js';
import { lock, type Parts, schedule, unreached } from '../../sim/testing/schedule.js';
import { judge } from '../judge.js';
import { found } from '../testing/found.js';

const cluster = { nodes: 3 };
/** Three holders, one after the other. */
const locks = [0, 2_000_000, 4_000_000].map((atUs) => [lock(atUs, { holdUs: 1_000_000 })]);
/** Whose votes are those of n0 and n1, of n0 and n2, and of n1 and n2. */
const fates: Fate[] = [...unreached('c1', 'n2'), ...unreached('c2', 'n1'), ...unreached('c3', 'n0')];

function fencing(parts: Parts): string[] {
  return found('fencing', { cluster, locks, fates, ...parts });
}

describe('fencing', () => {
  it('is broken by a token that is no higher than the one before, as it is granted', () => {
    expect(fencing({ policy: { deviations: ['fence-max', 'grants-count'] } })).toEqual(['c2 c3 4002000']);
    expect(fencing({ policy: { deviations: ['fence-min', 'grants-count'] } })).toEqual(['c1 c2 2002000']);
  });

  it('holds where tokens rise, and says nothing where there are none', () => {
    expect(fencing({ policy: { deviations: ['fence-max', 'grants-count'] }, fates: [] })).toEqual([]);
    expect(fencing({ policy: { settings: { fencing: true } } })).toEqual([]);
    expect(fencing({ policy: { settings: { fencing: true }, deviations: ['fence-without-token'] } })).toEqual([]);
    expect(fencing({ policy: { settings: { fencing: false } } })).toEqual([]);
  });

  it('does not compare holders of different resources', () => {
    const others = locks.map(([it], i) => (it === undefined ? [] : [{ ...it, resources: [`r${i}`] }]));
    expect(fencing({ policy: { deviations: ['fence-max', 'grants-count'] }, locks: others })).toEqual([]);
  });

  it('is broken by two holders at once with the same token, and not by two tokens with the same counter', () => {
    const losing: Fault[] = [{ kind: 'crash', atUs: 1_500, node: 'n1', restartAfterUs: 0 }];
    const overlap: Parts = { locks: [[lock(0)], [lock(1_000)]], faults: losing, fates: unreached('c1', 'n2') };
    expect(
      fencing({ ...overlap, policy: { settings: { tries: 1, fencing: true }, deviations: ['fence-without-token'] } }),
    ).toEqual(['c1 c2 7000']);
    expect(fencing({ ...overlap, policy: { settings: { tries: 1, fencing: true } } })).toEqual([]);
    expect(
      found('mutual-exclusion', { cluster, ...overlap, policy: { settings: { tries: 1, fencing: true } } }),
    ).toHaveLength(1);
  });
});

describe('fencing at the resource', () => {
  const write = (sendAfterUs: number): WritePlan => ({ checkAfterUs: 0, guardUs: null, sendAfterUs, delayUs: 1_000 });
  const twice = [[lock(0, { writes: [write(1_000), write(2_000)] })]];

  it('is broken by a resource that refuses the second write of the highest token', () => {
    const policy = { settings: { fencing: true } } as const;
    expect(fencing({ locks: twice, fates: [], policy, resource: 'fencing-strict' })).toEqual(['c1 9000']);
    expect(fencing({ locks: twice, fates: [], policy, resource: 'fencing' })).toEqual([]);
  });

  it('is about effects, which the verdict tells apart', () => {
    const parts = { locks: twice, policy: { settings: { fencing: true } } } as const;
    expect(judge(schedule({ ...parts, resource: 'fencing-strict' })).verdicts).toMatchObject({
      state: 'safe',
      effect: 'violated',
    });
    expect(judge(schedule({ ...parts, resource: 'fencing' })).verdicts).toMatchObject({
      state: 'safe',
      effect: 'safe',
    });
  });
});
