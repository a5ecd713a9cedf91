import { expect, it } from 'vitest';
import { chanceOfAtMost, quantileOf, sidakShare } from './joint.js';

it('knows the quantiles of the normal distribution', () => {
  expect(quantileOf(0.95)).toBeCloseTo(1.959964, 5);
  expect(quantileOf(0.99)).toBeCloseTo(2.575829, 5);
  expect(quantileOf(sidakShare(1))).toBeCloseTo(1.959964, 5);
  // Tables of Šidák's correction have 3.016 for twenty.
  expect(quantileOf(sidakShare(20))).toBeCloseTo(3.016, 3);
});

it('adds up a binomial distribution', () => {
  expect(chanceOfAtMost(20, 20)).toBeCloseTo(1, 12);
  expect(1 - chanceOfAtMost(19, 20)).toBeCloseTo(0.95 ** 20, 12);
  expect(chanceOfAtMost(0, 2)).toBeCloseTo(0.0025, 12);
});
