import { describe, expect, it } from 'vitest';
import { DEFAULT_SCOPE } from './bounds.js';
import { type ExploreOptions, Explorer } from './explore.js';

const SAFE: ExploreOptions = { bounds: { ...DEFAULT_SCOPE, nodes: 2, ttl: 2 } };
const VIOLATED: ExploreOptions = { bounds: { ...DEFAULT_SCOPE, crashes: 1, restartDelay: 0 } };

/** The result of an exploration that is stopped and resumed after so many looks. */
function inTwoParts(options: ExploreOptions, looks: number): object {
  const first = new Explorer(options);
  expect(first.work(looks)).toBe(true);
  // As from a file: nothing of the first one is shared.
  const { bytes: _, ...result } = Explorer.resumed(options, structuredClone(first.checkpoint())).run();
  return result;
}

function inOne(options: ExploreOptions): object {
  const { bytes: _, ...result } = new Explorer(options).run();
  return result;
}

describe('an exploration that was stopped', () => {
  it.each([
    ['that is safe', SAFE, 1000],
    ['that is violated', VIOLATED, 1000],
    ['without reductions', { ...SAFE, symmetry: false, reduced: false }, 5000],
    ['depth first', { ...SAFE, order: 'depth' as const }, 100],
  ])('goes on as if it had not been: %s', (_, options, looks) => {
    expect(inTwoParts(options, looks)).toEqual(inOne(options));
  });

  it('does not go on as another one', () => {
    const explorer = new Explorer(SAFE);
    explorer.work(10);
    const checkpoint = explorer.checkpoint();
    expect(() => Explorer.resumed(VIOLATED, checkpoint)).toThrow('other bounds');
    expect(() => Explorer.resumed({ ...SAFE, property: 'quorum-backed' }, checkpoint)).toThrow('other bounds');
  });

  it('does not go on with a lock that takes other steps', () => {
    const explorer = new Explorer(SAFE);
    explorer.work(1000);
    const checkpoint = explorer.checkpoint();
    const elsewhere = { ...checkpoint, states: checkpoint.states.map((word, i) => (i === 40 ? word ^ 1 : word)) };
    expect(() => Explorer.resumed(SAFE, elsewhere)).toThrow('another version of the lock');
  });
});
