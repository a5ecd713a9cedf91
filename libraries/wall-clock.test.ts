import { expect, it } from 'vitest';
import { lockFactoryOf } from './lock-factory.js';
import { lockOf } from './testing/blind/parts.js';
import { trustsWallClock } from './wall-clock.js';

it.each([
  ['Date.now()', () => Date.now(), true],
  ['performance.now()', () => performance.now(), false],
])('a lock that counts by %s', async (_, now, expected) => {
  const subject = await lockFactoryOf('a lock', ({ nodes }) => lockOf(nodes, { now }), 500);
  expect(await trustsWallClock(subject, 5)).toBe(expected);
});
