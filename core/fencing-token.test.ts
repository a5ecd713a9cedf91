import { describe, expect, it } from 'vitest';
import { fencingTokenOf, REFERENCE } from '../deviations/index.js';
import type { Token } from './commands.js';
import { compareFencingTokens, type FencingToken } from './fencing-token.js';

function token(counter: number, attempt: string | null): FencingToken {
  return { counter, attempt: attempt as Token | null };
}

describe('a fencing token', () => {
  it('has the counter and, where the policy keeps it, the token of the attempt', () => {
    const made = (fencing: (typeof REFERENCE)['fencing']) => fencingTokenOf({ ...REFERENCE, fencing }, 3, 'a' as Token);
    expect(made('none')).toBe(null);
    for (const fencing of ['quorum', 'plain-write', 'piggybacked-read'] as const) {
      expect(made(fencing)).toEqual(token(3, 'a'));
    }
    for (const fencing of ['counter-alone', 'max', 'sum', 'min'] as const)
      expect(made(fencing)).toEqual(token(3, null));
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
