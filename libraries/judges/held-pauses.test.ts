import { expect, it } from 'vitest';
import type { Violation } from '../../properties/index.js';
import { HeldPauses } from './held-pauses.js';

/** c1 and c2 both believe from 20 to 30 ms. */
const BOTH: Violation = {
  property: 'mutual-exclusion',
  kind: 'belief',
  atUs: 20_000,
  untilUs: 30_000,
  resource: 'a',
  clients: ['c1', 'c2'],
  detail: '',
};

it.each([
  ['one of the two, for all of it', 'c1', 10_000, 30_000, true, true],
  ['one of the two, but not for all of it', 'c1', 10_000, 29_999, false, false],
  ['one that is not among them, which may be the one too many', 'c3', 10_000, 30_000, false, true],
])('covers a pause of %s', (_, client, sinceUs, untilUs, alone, shared) => {
  for (const [isShared, covers] of [
    [false, alone],
    [true, shared],
  ] as const) {
    const pauses = new HeldPauses(isShared);
    pauses.add(client, sinceUs, untilUs);
    expect(pauses.cover(BOTH)).toBe(covers);
  }
});
