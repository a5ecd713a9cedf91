import { expect, it } from 'vitest';
import type { Fault, LockPlan } from '../../scenarios/index.js';
import { lock, schedule } from '../../sim/testing/schedule.js';
import { judge } from '../judge.js';

/** When writes came that should not have. */
function strays(fields: Partial<LockPlan>, faults: Fault[] = []): number[] {
  const { violations, verdicts } = judge(schedule({ locks: [[lock(0, fields)]], faults }));
  const found = violations.filter(({ property }) => property === 'no-stale-write').map(({ atUs }) => atUs);
  expect(verdicts.effect).toBe(found.length > 0 ? 'violated' : 'safe');
  return found;
}

const write = (sendAfterUs: number, delayUs: number): Partial<LockPlan> => ({
  writes: [{ checkAfterUs: sendAfterUs, guardUs: null, sendAfterUs, delayUs }],
});

it('allows a write in the last microsecond of a claim, and none as it ends', () => {
  expect(strays(write(9_895_000, 999))).toEqual([]);
  expect(strays(write(9_895_000, 1_000))).toEqual([9_898_000]);
});

it('allows a write until the release is called, and none after it', () => {
  expect(strays({ ...write(1_000, 3_999), holdUs: 5_000 })).toEqual([]);
  expect(strays({ ...write(1_000, 4_001), holdUs: 5_000 })).toEqual([7_001]);
});

it('allows no write of a client that is dead', () => {
  expect(strays(write(1_000, 4_000), [{ kind: 'client-crash', client: 'c1', atUs: 5_000 }])).toEqual([7_000]);
});

it('says nothing where nobody writes', () => {
  expect(judge(schedule()).verdicts.effect).toBe('unchecked');
});
