import { describe, expect, it } from 'vitest';
import { weightedSum, wilson } from './interval.js';

describe('an interval of a share', () => {
  it.each([
    // Newcombe 1998, table I, method 3.
    [81, 263, 0.2553, 0.3662],
    [15, 148, 0.0624, 0.1605],
    [0, 20, 0, 0.1611],
    [1, 29, 0.0061, 0.1718],
  ])('of %i in %i is that of Wilson', (hits, runs, low, high) => {
    const interval = wilson(hits, runs);
    expect([interval.low, interval.high].map((it) => it.toFixed(4))).toEqual([low.toFixed(4), high.toFixed(4)]);
  });

  it('is everything where nothing was run', () => {
    expect(wilson(0, 0)).toEqual({ value: 0, low: 0, high: 1 });
  });
});

describe('an interval of a weighted sum', () => {
  it('is that of the share where there is one', () => {
    const { value, low, high } = wilson(15, 148);
    const sum = weightedSum([{ hits: 15, runs: 148, weight: 2 }]);
    expect([sum.value, sum.low, sum.high]).toEqual([2 * value, 2 * low, 2 * high].map((it) => expect.closeTo(it, 12)));
  });

  it('is wider for a stratum without a hit, by what may be hidden there', () => {
    const found = { hits: 50, runs: 100, weight: 1 };
    const alone = weightedSum([found]);
    const both = weightedSum([found, { hits: 0, runs: 10, weight: 1 }]);
    expect(both.value).toBe(alone.value);
    expect(both.high).toBeGreaterThan(alone.high + 0.1);
  });
});
