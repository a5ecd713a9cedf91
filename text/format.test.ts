import { expect, test } from 'vitest';
import { formatCount, formatList, formatPercent, plural, truncate, wrap } from './format.js';

test('numbers are grouped, and have their words', () => {
  expect([formatCount(1_234_567), formatCount(123)]).toEqual(['1 234 567', '123']);
  expect([plural(1, 'crash', 'crashes'), plural(2, 'crash', 'crashes')]).toEqual(['1 crash', '2 crashes']);
  expect([formatPercent(10_000), formatPercent(2_500)]).toEqual(['1 %', '0.25 %']);
  expect([formatList([]), formatList(['a']), formatList(['a', 'b', 'c'], 'or')]).toEqual(['', 'a', 'a, b or c']);
});

test('lines break between words, never inside a number', () => {
  expect(wrap('about 1 911 votes and 2 %', 9)).toEqual(['about', '1 911', 'votes and', '2 %']);
  expect(truncate('abcdef', 4)).toBe('abc…');
});
