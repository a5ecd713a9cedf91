import { expect, it } from 'vitest';
import { readMangled } from './testing/mangled.js';

const COUNT = 10_000;

it('ten thousand damaged inputs of every kind are told of in sentences that can be read', async () => {
  const { refused, read } = await readMangled(COUNT, 'ten thousand');
  expect(refused + read).toBe(COUNT);
  expect(refused).toBeGreaterThan(COUNT * 0.7);
});
