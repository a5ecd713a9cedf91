import { expect, it } from 'vitest';
import { exploring, replayed } from './testing/exploring.js';

it('one token for all tries, on links that reorder, has a shortest counterexample, which replays', () => {
  const change = { retries: 1, timeout: 1, link: 'reordering', ttl: 2, policy: { tokenScope: 'call' } } as const;
  const found = exploring(change);
  expect(found).toMatchObject({ verdict: 'violated', depth: 16 });
  expect(replayed(change, found)).toContain('mutual-exclusion');
});

it('depth first finds a way that replays', () => {
  const change = { crashes: 1, restartDelay: 0 };
  const found = exploring(change, { order: 'depth' });
  expect(found.verdict).toBe('violated');
  expect(replayed(change, found)).toContain('mutual-exclusion');
});
