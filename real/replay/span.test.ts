import { expect, it } from 'vitest';
import type { Interval } from './observation.js';
import { type LookEnd, Span } from './span.js';

const GRACE_US = 50_000;

/** What is noted of something that is so from the first look to the last one. */
function noted(first: LookEnd, last: LookEnd): Interval[] {
  const into: Interval[] = [];
  const span = new Span();
  span.see(true, first, GRACE_US, into);
  span.see(false, last, GRACE_US, into);
  span.see(false, { ...last, nowUs: last.nowUs + 1 }, GRACE_US, into);
  return into;
}

it('is noted where it lasts for longer than is allowed', () => {
  const first = { nowUs: 1_000, lateUs: 7 };
  expect(noted(first, { nowUs: 51_001, lateUs: 7 })).toEqual([{ fromUs: 1_000, toUs: 51_001 }]);
  expect(noted(first, { nowUs: 51_000, lateUs: 7 })).toEqual([]);
});

it('does not count time for which looks were late', () => {
  const first = { nowUs: 1_000, lateUs: 7 };
  expect(noted(first, { nowUs: 301_000, lateUs: 250_007 })).toEqual([]);
  expect(noted(first, { nowUs: 301_000, lateUs: 249_999 })).toEqual([{ fromUs: 1_000, toUs: 301_000 }]);
});
