import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judge } from '../properties/judge.js';
import { SAFETY } from '../properties/property-lists.js';
import { check } from './check.js';
import { exceedBound, WITHIN_ASSUMPTIONS } from './fault-model.js';
import { recordOf, type SearchPlan, searchRange } from './range.js';
import { noTotals, type SearchTotals, sumOf } from './search-totals.js';
import { STRATEGY_NAMES } from './strategy-info.js';

const PLAN: SearchPlan = {
  faultModel: WITHIN_ASSUMPTIONS,
  seed: 'ranges',
  strategy: 'combination',
  properties: SAFETY,
};
/** One in which every third run or so violates something. */
const BROKEN: SearchPlan = { ...PLAN, faultModel: exceedBound(WITHIN_ASSUMPTIONS, 'clock-drift', 1.5) };
const RUNS = 120;

/** What the ranges between these ends come to, in the order of `order`. */
function parted(plan: SearchPlan, ends: readonly number[], order: readonly number[]): SearchTotals {
  const cuts = [0, ...[...ends].sort((a, b) => a - b), RUNS];
  const parts = cuts.slice(1).map((to, i) => {
    const { from: _, to: __, found: ___, ...tally } = searchRange(plan, cuts[i] ?? 0, to, Number.POSITIVE_INFINITY);
    return tally;
  });
  const shuffled = parts.map((part, i) => ({ part, rank: order[i] ?? 0 })).sort((a, b) => a.rank - b.rank);
  return shuffled.reduce<SearchTotals>((sum, { part }) => sumOf(sum, part), noTotals());
}

const splits = fc.tuple(
  fc.array(fc.integer({ min: 0, max: RUNS }), { maxLength: 5 }),
  fc.array(fc.nat(), { minLength: 6, maxLength: 6 }),
);

describe.each([
  ['a search that finds nothing', PLAN],
  ['a search that finds much', BROKEN],
])('%s', (_, plan) => {
  it('comes to the same in one piece and in any pieces, in any order', () => {
    const whole = parted(plan, [], []);
    expect(whole.runs).toBe(RUNS);
    fc.assert(
      fc.property(splits, ([ends, order]) => {
        expect(parted(plan, ends, order)).toEqual(whole);
      }),
      { numRuns: 30, seed: 1 },
    );
  });
});

describe('a range', () => {
  it('of each strategy is the same alone', async () => {
    for (const strategy of STRATEGY_NAMES) {
      const { hash, events, exercised } = await check({ ...PLAN, strategy, runs: RUNS });
      expect(parted({ ...PLAN, strategy }, [50], [1, 0])).toMatchObject({ hash, events, exercised });
    }
  });

  it('ends behind its last finding, or finds all; the first ones are kept and can be written down', () => {
    const all = searchRange(BROKEN, 0, RUNS, Number.POSITIVE_INFINITY);
    const total = Object.values(all.violating).reduce((sum, runs) => sum + runs, 0);
    expect(all).toMatchObject({ from: 0, to: RUNS, runs: RUNS });
    expect(total).toBeGreaterThan(all.found.length);
    const [first, second] = all.found;
    if (first === undefined || second === undefined) throw new Error('there are no findings');
    expect(searchRange(BROKEN, 0, RUNS)).toMatchObject({ to: first.run + 1, found: [first] });
    expect(searchRange(BROKEN, first.run + 1, RUNS)).toMatchObject({ to: second.run + 1, found: [second] });
    for (const { run, violation } of [first, second]) {
      const { violations } = judge(recordOf(BROKEN, { run }), [violation.property]);
      expect(violations).toContainEqual(
        expect.objectContaining({ property: violation.property, atUs: violation.atUs }),
      );
    }
  });

  it('survives being written as JSON', () => {
    const range = searchRange(BROKEN, 0, RUNS, 10);
    expect(JSON.parse(JSON.stringify(range))).toEqual(range);
    const plan: SearchPlan = JSON.parse(JSON.stringify(BROKEN));
    expect(searchRange(plan, 0, RUNS, 10)).toEqual(range);
  });
});
