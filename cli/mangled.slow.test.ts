import { expect, it } from 'vitest';
import { readMangled } from './testing/mangled.js';

const COUNT = 3_000;

it('three thousand damaged inputs of every kind are told of in sentences that can be read', async () => {
  const { refused, read } = await readMangled(COUNT, 'three thousand');
  expect(refused + read).toBe(COUNT);
  expect(refused).toBeGreaterThan(COUNT * 0.7);
});
