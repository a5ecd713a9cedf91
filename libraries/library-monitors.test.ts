import { expect, it } from 'vitest';
import type { Fault, LockPlan } from '../scenarios/index.js';
import { lockFactoryOf } from './lock-factory.js';
import { replayLibraries } from './run.js';
import { HandleLock } from './testing/clients/right-locks.js';
import { plan, scheduleOf } from './testing/schedules.js';

async function found(lock: LockPlan, faults: readonly Fault[] = []): Promise<string[]> {
  const subject = await lockFactoryOf('a lock', ({ nodes }) => new HandleLock(nodes), 500);
  const { violations } = await replayLibraries(subject, scheduleOf([[lock]], { faults }));
  return violations.map(({ property }) => property);
}

const writes = [{ checkAfterUs: 100_000, guardUs: 3_000, sendAfterUs: 150_000, delayUs: 1_000 }];

it('does not blame a client for a write that is on its way when the schedule gives its lock back', async () => {
  expect(await found(plan(0, 150_500, { writes }))).toEqual([]);
});

it('blames one whose lock has ended by itself, whether it is released by then or not', async () => {
  const pause: Fault = { kind: 'pause', process: 'c1', atUs: 125_000, forUs: 1_500_000 };
  expect(await found(plan(0, 3_000_000, { writes }), [pause])).toEqual(['no-stale-write']);
  expect(await found(plan(0, 1_200_000, { writes }), [pause])).toEqual(['no-stale-write']);
});
