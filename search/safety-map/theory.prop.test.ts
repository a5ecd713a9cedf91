import fc from 'fast-check';
import { expect, test } from 'vitest';
import { measure } from './cell.js';
import { FAULT_FREE, type Point } from './point.js';
import { computed } from './theory.js';

const MS = 1000;

const points: fc.Arbitrary<Point> = fc.record({
  ttl: fc.integer({ min: 20, max: 30_000 }).map((ms) => ms * MS),
  drift: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 30_000 })),
  'drift-allowance': fc.constantFrom(0, 10_000, 50_000, 200_000),
  'fixed-allowance': fc.constantFrom(0, 2 * MS),
  'restart-delay': fc.option(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40_000 * MS }))),
  step: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 600 * MS })),
  latency: fc.constantFrom(0, 1 * MS, 5 * MS, 40 * MS),
  nodes: fc.integer({ min: 1, max: 7 }),
  votes: fc.option(fc.integer({ min: 1, max: 7 })),
  'faulty-voters': fc.integer({ min: 0, max: 4 }),
  'nodes-down': fc.integer({ min: 0, max: 3 }),
  'write-delay': fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 700 * MS })),
  guard: fc.integer({ min: 0, max: 700 * MS }),
});

/** Configurations that differ by what rounding to microseconds is worth. */
function neighbours(point: Point): Point[] {
  const clock = Math.ceil((3 * 1_000_000) / point.ttl);
  const delay = point['restart-delay'];
  return [-3, 3].flatMap((us) => [
    { ...point, drift: Math.max(0, point.drift + Math.sign(us) * clock) },
    { ...point, step: Math.max(0, point.step + us) },
    { ...point, 'write-delay': Math.max(1, point['write-delay'] + us) },
    { ...point, guard: Math.max(0, point.guard + us) },
    { ...point, latency: Math.max(0, point.latency + us) },
    ...(delay === null ? [] : [{ ...point, 'restart-delay': Math.max(0, delay + us) }]),
  ]);
}

test('the simulator and the mathematics agree on whole configurations, to what rounding is worth', () => {
  fc.assert(
    fc.property(points, (point) => {
      const { verdict } = measure(point);
      const said = computed(point);
      if (verdict !== said) expect(neighbours(point).map((it) => computed(it))).toContain(verdict);
    }),
    { numRuns: 1_500, seed: 7 },
  );
});

test('the agreement is not empty: the same points have every verdict, and another formula does not agree', () => {
  const sample = fc.sample(points, { numRuns: 800, seed: 7 });
  const verdicts = sample.map((it) => measure(it).verdict);
  for (const verdict of ['safe', 'violated', 'unavailable']) {
    expect(verdicts.filter((it) => it === verdict).length).toBeGreaterThan(20);
  }
  // Without the drift allowance in the formula.
  const wrong = sample.map((it) => computed({ ...it, 'drift-allowance': 0, 'fixed-allowance': 0 }));
  expect(wrong.filter((it, i) => it !== verdicts[i]).length).toBeGreaterThan(20);
  expect(measure(FAULT_FREE).verdict).toBe('safe');
});
