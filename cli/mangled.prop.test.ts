import { expect, it } from 'vitest';
import { readMangled } from './testing/mangled.js';

it('damaged inputs of every kind are told of in one sentence that can be read, and write nothing elsewhere', async () => {
  const { refused } = await readMangled(240, 'mangled');
  expect(refused).toBeGreaterThan(160);
});
