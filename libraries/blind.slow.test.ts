import { expect, it } from 'vitest';
import { RIGHT_LOCKS } from './testing/blind/right.js';
import { WRONG_LOCKS } from './testing/blind/wrong.js';
import { firstKind } from './testing/first-kind.js';

it.each(RIGHT_LOCKS)('a right lock passes the default call: $style', async ({ make }) => {
  expect(await firstKind(make)).toBe('passed');
});

it.each(WRONG_LOCKS)('a wrong lock does not: $defect', async ({ make, kinds }) => {
  expect(kinds).toContain(await firstKind(make));
});
