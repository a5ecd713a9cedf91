import { expect, it } from 'vitest';
import { lock, unreached } from '../../sim/testing/schedule.js';
import { found } from '../testing/found.js';

const fates = unreached('c1', 'n2', 'n3', 'n4');

it('token-unique is broken by a second attempt with the token of the first, as it begins', () => {
  expect(found('token-unique', { policy: { tokenScope: 'call', tries: 2 }, fates })).toEqual(['c1 c1 250000']);
});

it('token-unique holds when each attempt has its own, also at the same instant, and when there is but one', () => {
  expect(found('token-unique', { fates })).toEqual([]);
  expect(found('token-unique', { locks: [[lock(0)], [lock(0)]] })).toEqual([]);
  expect(found('token-unique', { policy: { tokenScope: 'call' } })).toEqual([]);
});
