import { expect, it } from 'vitest';
import { HUNG, KILLED, STALLS, setOn, stallOf } from '../testing/stalls.js';

it.each(STALLS)('$call of $library above $module stalls as on real servers', async ({ realMs, ...stall }) => {
  const stalled = (await stallOf(stall, KILLED)) ?? 0;
  expect(Math.abs(stalled - realMs) / realMs).toBeLessThan(0.01);
  // A server that hangs gives no error, and no time-out is on by default.
  expect(await stallOf({ ...stall, call: 'acquire' }, HUNG)).toBeNull();
});

it('node-redis 6 gives up a command that waits for its connection after 5 s, node-redis 5 never does', async () => {
  expect(await setOn('redis')).toBe('TimeoutError 5000');
  expect(await setOn('redis5')).toBeNull();
});
