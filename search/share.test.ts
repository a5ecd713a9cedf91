import { expect, it } from 'vitest';
import { greatestShare } from './share.js';

it('is the share that so many draws would have missed in one of twenty searches', () => {
  for (const runs of [1, 10, 1_000, 1_000_000]) expect((1 - greatestShare(runs)) ** runs).toBeCloseTo(0.05, 9);
  // The rule of three.
  expect(greatestShare(1_000)).toBeCloseTo(0.003, 4);
});

it('says nothing without a draw, and less for more confidence', () => {
  expect(greatestShare(0)).toBe(1);
  expect(greatestShare(1_000, 0.99)).toBeGreaterThan(greatestShare(1_000, 0.9));
});
