import { expect, it } from 'vitest';
import type { Fault } from '../../scenarios/index.js';
import { replayLibraries } from '../run.js';
import { plan, scheduleOf } from '../testing/schedules.js';
import { loadSubject } from './index.js';
import { LOCKSTEP } from './lockstep.js';

/** What each client sends for an extension that is asked for half-way through a lock. */
async function extensionsSent(faults: readonly Fault[]): Promise<Record<string, number>> {
  const extensions = [{ afterUs: 500_000, ttlMs: 1_000 }];
  const schedule = scheduleOf(
    [[plan(0, 900_000, { extensions })], [plan(100_000, 900_000, { extensions, resources: ['b'] })]],
    { faults },
  );
  const { run } = await replayLibraries(await loadSubject(LOCKSTEP), schedule, { trace: true });
  const sent = run.trace.filter(({ kind, detail }) => kind === 'send' && detail.operation === 'extend');
  const of = (client: string): number => sent.filter(({ process }) => process === client).length;
  return { c1: of('c1'), c2: of('c2') };
}

it('has a clock in each simulated process, which notices that its machine was suspended, and no other', async () => {
  expect(await extensionsSent([])).toEqual({ c1: 5, c2: 5 });
  const suspend: Fault = { kind: 'suspend', process: 'c1', atUs: 200_000, forUs: 2_000_000 };
  expect(await extensionsSent([suspend])).toEqual({ c1: 0, c2: 5 });
});
