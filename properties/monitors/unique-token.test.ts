import { expect, it } from 'vitest';
import { lock, unreached } from '../../sim/testing/schedule.js';
import { found } from '../testing/found.js';

const fates = unreached('c1', 'n2', 'n3', 'n4');

it('unique-token is broken by a second attempt with the token of the first, as it begins', () => {
  expect(found('unique-token', { policy: { settings: { tries: 2 }, deviations: ['token-per-call'] }, fates })).toEqual([
    'c1 c1 250000',
  ]);
});

it('one-lock-per-token is broken by a lock with the token of another, as it begins, and by no attempt of the same lock', () => {
  const locks = [[lock(0)], [lock(0)]];
  expect(found('one-lock-per-token', { policy: { habits: { tokenFrom: 'clock-us' } }, locks })).toEqual(['c1 c2 0']);
  // A microsecond later it is another one.
  expect(
    found('one-lock-per-token', { policy: { habits: { tokenFrom: 'clock-us' } }, locks: [[lock(0)], [lock(1)]] }),
  ).toEqual([]);
  expect(
    found('one-lock-per-token', { policy: { settings: { tries: 2 }, deviations: ['token-per-call'] }, fates }),
  ).toEqual([]);
  const own = [[lock(0, { holdUs: 5_000 }), lock(20_000)]];
  expect(
    found('one-lock-per-token', {
      policy: { deviations: ['token-per-call'], habits: { tokenPerProcess: true } },
      locks: own,
    }),
  ).toEqual(['c1 c1 20000']);
});

it('unique-token holds when each attempt has its own, also at the same instant, and when there is but one', () => {
  expect(found('unique-token', { fates })).toEqual([]);
  expect(found('unique-token', { locks: [[lock(0)], [lock(0)]] })).toEqual([]);
  expect(found('unique-token', { policy: { deviations: ['token-per-call'] } })).toEqual([]);
});
