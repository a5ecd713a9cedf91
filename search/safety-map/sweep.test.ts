import { describe, expect, it } from 'vitest';
import { axisOver } from './axis.js';
import { FAULT_FREE, type ParameterName, type Point } from './point.js';
import { computedCrossings, measureColumn, type SweepPlan } from './sweep.js';

const MS = 1000;

/** A plan over two parameters with some others fixed. */
function plan(x: ParameterName, y: ParameterName, values: readonly number[], fixed: Partial<Point> = {}): SweepPlan {
  return { x: { name: x, values: [] }, y: { name: y, values }, base: { ...FAULT_FREE, ...fixed } };
}

/** Typed by hand from the theory: the greatest error of rate, in %, without latency, for an allowance of 1 % + 2 ms. */
const TOLERATED: readonly (readonly [ttlMs: number, percent: number])[] = [
  [50, 2.5641],
  [100, 1.5228],
  [1_000, 0.6036],
  [8_000, 0.5151],
  [10_000, 0.5126],
  [30_000, 0.5059],
];

describe('ttl against drift', () => {
  const grid = Array.from({ length: 31 }, (_, i) => 1_000 * i);

  it.each(TOLERATED)('for a TTL of %i ms the boundary is where the theory has it, to one ppm', (ttlMs, percent) => {
    // The table has no rounding to whole milliseconds.
    const wanted = { ...plan('ttl', 'drift', grid), change: { deviations: ['drift-unrounded'] } };
    const { boundaries, measured } = measureColumn(wanted, ttlMs * MS);
    const [only, ...others] = boundaries;
    if (only === undefined) throw new Error('no boundary');
    expect(others).toEqual([]);
    expect([only.below.verdict, only.above.verdict, only.above.at - only.below.at]).toEqual(['safe', 'violated', 1]);
    // One ppm, or what a microsecond of each of the two clocks is worth; half a digit of the table besides.
    const tolerance = Math.max(1, 1_000 / ttlMs) + 0.5;
    expect(Math.abs(only.below.at - 10_000 * percent)).toBeLessThanOrEqual(tolerance);
    expect(Math.abs((only.computed ?? Number.NaN) - 10_000 * percent)).toBeLessThanOrEqual(0.5);
    // Within one cell of the grid.
    const safe = measured.filter((it) => it === 'safe').length;
    expect(Math.abs((grid[safe - 1] ?? 0) - 10_000 * percent)).toBeLessThan(1_000);
  });
});

describe('the boundary of other pairs', () => {
  it('restart delay: a crash right after the vote takes TTL - D, in time of the node', () => {
    const [only] = measureColumn(plan('ttl', 'restart-delay', [0, 15_000 * MS]), 10_000 * MS).boundaries;
    expect(only?.below).toEqual({ at: 9_898 * MS - 1, verdict: 'violated' });
    expect(only?.above).toEqual({ at: 9_898 * MS, verdict: 'safe' });
    expect(only?.computed).toBeCloseTo(9_898 * MS, 3);
  });

  it('restart delay with latency: the crash comes in the instant of the vote, and both sides are exact', () => {
    const fixed = { latency: 2 * MS };
    const [only] = measureColumn(plan('ttl', 'restart-delay', [0, 15_000 * MS], fixed), 3_000 * MS).boundaries;
    // TTL - D = 2 968 ms, less the vote's way and the rival's answer.
    expect(only?.below).toEqual({ at: 2_964 * MS - 1, verdict: 'violated' });
    expect(only?.above).toEqual({ at: 2_964 * MS, verdict: 'safe' });
    expect(only?.computed).toBeCloseTo(2_964 * MS, 3);
  });

  it('a step by a whole TTL lets a rival in as long as anything of the claim is left', () => {
    const at = (latency: number) =>
      measureColumn(plan('ttl', 'step', [3_000 * MS], { latency }), 1_000 * MS).measured[0];
    // TTL - D = 988 ms: the rival, there right after the votes, claims a microsecond after the holder.
    expect([400_000, 493_998, 493_999, 494_000].map(at)).toEqual(['violated', 'violated', 'violated', 'unavailable']);
  });

  it('clock steps: the allowance and a round trip', () => {
    const fixed = { latency: 1 * MS };
    const [only] = measureColumn(plan('ttl', 'step', [0, 500 * MS], fixed), 10_000 * MS).boundaries;
    expect(only?.below).toEqual({ at: 104 * MS, verdict: 'safe' });
    expect(only?.above.verdict).toBe('violated');
  });

  it('one voter that forgets suffices against a bare quorum, and one vote more withstands it', () => {
    const fixed = { 'restart-delay': 0 };
    const columns = [3, 4, 5].map((votes) => measureColumn(plan('votes', 'faulty-voters', [0, 1, 2, 3], fixed), votes));
    expect(columns.map(({ measured }) => measured.filter((it) => it === 'safe').length)).toEqual([1, 2, 3]);
  });

  it('nodes that are down: a minority is none, a majority leaves nobody a lock', () => {
    const column = measureColumn(plan('nodes', 'nodes-down', [0, 1, 2, 3]), 5);
    expect(column.measured).toEqual(['safe', 'safe', 'safe', 'unavailable']);
    expect(column.boundaries[0]?.below.at).toBe(2);
  });

  it('latency eats the validity: past half of TTL - D nobody gets the lock', () => {
    const column = measureColumn(plan('ttl', 'latency', [0, 100 * MS]), 100 * MS);
    expect(column.boundaries.map(({ below, above }) => [below.verdict, above.verdict])).toEqual([
      ['safe', 'unavailable'],
    ]);
    // TTL - D = 97 ms.
    expect(column.boundaries[0]?.below.at).toBe(48_499);
  });

  it('a pause is harmless up to the guard', () => {
    const column = measureColumn(plan('guard', 'write-delay', [0, 400 * MS]), 250 * MS);
    expect(Math.abs((column.boundaries[0]?.below.at ?? 0) - 250 * MS)).toBeLessThanOrEqual(1);
    expect(column.boundaries[0]?.above.verdict).toBe('violated');
  });

  it('a lock without allowance does not withstand any drift, and the theory says so too', () => {
    const column = measureColumn(plan('drift-allowance', 'drift', [0, 10, 1_000], { 'fixed-allowance': 0 }), 0);
    expect(column.measured).toEqual(['safe', 'violated', 'violated']);
    expect(column.computed).toEqual(column.measured);
  });
});

it('the curve of the theory is known where nothing was measured', () => {
  const grid = Array.from({ length: 21 }, (_, i) => 1_000 * i);
  const [only, ...others] = computedCrossings(plan('ttl', 'drift', grid), 10_000 * MS);
  expect(others).toEqual([]);
  expect(only).toBeCloseTo((1_000_000 * 102) / (20_000 - 102), 3);
});

describe('the values of an axis', () => {
  it('are round, and begin and end as asked', () => {
    expect(axisOver('drift', { low: 0, high: 20_000 }, 21).values).toHaveLength(21);
    expect(axisOver('drift', { low: 0, high: 20_000 }, 21).values.slice(0, 3)).toEqual([0, 1_000, 2_000]);
    expect(axisOver('nodes', { low: 1, high: 9 }, 40).values).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(axisOver('step', { low: 30, high: 470_000 }, 11).values.at(0)).toBe(30);
    expect(axisOver('step', { low: 30, high: 470_000 }, 11).values.at(-1)).toBe(470_000);
  });

  it('have equal ratios where the range is wide, and keep to whole milliseconds of TTL', () => {
    const { values } = axisOver('ttl', { low: 50_000, high: 30_000_000 }, 20);
    expect([values[0], values.at(-1)]).toEqual([50_000, 30_000_000]);
    expect(values.every((it) => it % 1000 === 0)).toBe(true);
    expect(values.length).toBeGreaterThan(15);
    expect((values[12] ?? 0) / (values[11] ?? 1)).toBeCloseTo((values[6] ?? 0) / (values[5] ?? 1), 1);
  });
});
