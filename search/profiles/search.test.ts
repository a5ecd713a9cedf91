import { expect, test } from 'vitest';
import { brokenProperties } from './search.js';

test('a client without a look at the time breaks its promise within the assumptions', () => {
  const { inside } = brokenProperties('node-redlock-5', 60);
  expect([...inside.keys()]).toContain('acquisition');
});

test('a client that reads the wall clock is hurt by its steps, which is outside of them', () => {
  const { inside, anywhere } = brokenProperties('node-redlock-4', 100);
  expect([...anywhere.keys()]).toContain('quorum-backed');
  expect([...inside.keys()]).not.toContain('mutual-exclusion');
});

test('the reference breaks nothing', () => {
  expect(brokenProperties('reference', 100).anywhere.size).toBe(0);
});
