import { describe, expect, it } from 'vitest';
import { fencingTokenOf, policyWith } from '../deviations/index.js';
import type { Token } from './commands.js';
import { compareFencingTokens, type FencingToken } from './fencing-token.js';

function token(counter: number, attempt: string | null): FencingToken {
  return { counter, attempt: attempt as Token | null };
}

describe('a fencing token', () => {
  it('has the counter and, where the policy keeps it, the token of the attempt', () => {
    const made = (fencing: boolean, ...deviations: string[]) =>
      fencingTokenOf(policyWith({ settings: { fencing }, deviations }), 3, 'a' as Token);
    expect(made(false)).toBe(null);
    expect(made(true)).toEqual(token(3, 'a'));
    for (const name of ['counter-plainly-written', 'fence-from-votes']) expect(made(true, name)).toEqual(token(3, 'a'));
    expect(made(true, 'fence-without-token')).toEqual(token(3, null));
    for (const name of ['fence-max', 'fence-sum', 'fence-min']) expect(made(false, name)).toEqual(token(3, null));
  });

  it('is ordered by its counter, then by the attempt, and equal only to itself', () => {
    const ordered = [token(1, 'z'), token(2, null), token(2, 'a'), token(2, 'b'), token(10, 'a')];
    for (const [i, a] of ordered.entries()) {
      for (const [j, b] of ordered.entries()) {
        expect(Math.sign(compareFencingTokens(a, b))).toBe(Math.sign(i - j));
      }
    }
  });
});
