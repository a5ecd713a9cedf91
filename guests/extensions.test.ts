import { expect, it } from 'vitest';
import { Extensions } from './extensions.js';

const MAJORITY = 2;

it('has a majority once in a round, at the answer that makes it', () => {
  const extensions = new Extensions();
  for (const node of [0, 1, 2]) extensions.sent(node);
  expect([0, 1, 2].map((node) => extensions.answered(node, MAJORITY))).toEqual([false, true, false]);
});

it('does not add up answers of different rounds, nor one node twice', () => {
  const extensions = new Extensions();
  for (const node of [0, 1, 2]) extensions.sent(node);
  expect([extensions.answered(0, MAJORITY), extensions.answered(0, MAJORITY)]).toEqual([false, false]);
  for (const node of [0, 1, 2]) extensions.sent(node);
  expect(extensions.answered(1, MAJORITY)).toBe(false);
  expect(extensions.answered(0, MAJORITY)).toBe(true);
});
