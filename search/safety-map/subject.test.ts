import { describe, expect, it } from 'vitest';
import { sweepPlanOf } from './plan-text.js';
import { measureColumn, type SweepPlan } from './sweep.js';

const ROOM = { across: 2, up: 2 };

/** The first column of a plan. */
function column(plan: SweepPlan) {
  return measureColumn(plan, plan.x.values[0] ?? 0);
}

describe('a sweep of a known client', () => {
  it.each([
    ['reference', 5126],
    ['redsync-4', 5025],
    ['redsync-2015', 4924],
  ])('%s tolerates %i ppm of drift with its own allowance, as is computed', (profile, ppm) => {
    const { boundaries } = column(sweepPlanOf(['ttl=10s,20s', 'drift=0..2%'], () => ROOM, { profile }));
    expect(boundaries.map(({ below, above }) => [below.at, below.verdict, above.verdict])).toEqual([
      [ppm, 'safe', 'violated'],
    ]);
    expect(Math.floor(boundaries[0]?.computed ?? 0)).toBe(ppm);
  });

  it('has the quorum of that client: of five nodes, redlock-php needs four', () => {
    const plan = sweepPlanOf(['nodes=5,7', 'nodes-down=0..2'], () => ({ across: 2, up: 3 }), {
      profile: 'redlock-php',
    });
    expect(column(plan)).toMatchObject({
      measured: ['safe', 'safe', 'unavailable'],
      computed: ['safe', 'safe', 'unavailable'],
    });
  });

  it('refuses one that nobody knows', () => {
    expect(() => sweepPlanOf(['ttl', 'drift'], () => ROOM, { profile: 'nobody' })).toThrow(
      '--profile: "nobody" is not',
    );
  });
});

describe('a sweep with a persistence', () => {
  it.each([
    ['none', 'violated'],
    ['rdb', 'violated'],
    ['everysec', 'violated'],
    ['always', 'safe'],
  ] as const)('%s: a voter that is back at once makes it %s', (persistence, verdict) => {
    const plan = sweepPlanOf(['faulty-voters=1,2', 'restart-delay=0,1s'], () => ROOM, { persistence });
    const { measured, computed } = column(plan);
    expect([measured[0], computed[0]]).toEqual([verdict, verdict]);
  });
});
