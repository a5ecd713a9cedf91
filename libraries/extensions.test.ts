import { expect, it } from 'vitest';
import type { Fate } from '../scenarios/index.js';
import { loadSubject } from './adapters/index.js';
import { REDIS_SEMAPHORE } from './adapters/redis-semaphore.js';
import { Extensions } from './extensions.js';
import { replayLibraries } from './run.js';
import { kindOf, type ViolationKind } from './search/kinds.js';
import { plan, scheduleOf } from './testing/schedules.js';

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

/** c1 refreshes after 800 ms; the answer is late. c2 wants the lock from `atUs` on. */
async function kindsWith(replyLateUs: number, atUs: number): Promise<readonly ViolationKind[]> {
  const late: Fate = {
    client: 'c1',
    operation: 'extend',
    node: 'n0',
    direction: 'reply',
    delayUs: replyLateUs,
  };
  const drawn = scheduleOf([[plan(0, 2_000_000)], [plan(atUs, 10_000)]], { fates: [late] });
  const schedule = { ...drawn, cluster: { ...drawn.cluster, nodes: 1 } };
  const { violations } = await replayLibraries(await loadSubject(REDIS_SEMAPHORE), schedule);
  return violations.map(kindOf);
}

it('is an extension where a library hears of it in time', async () => {
  expect(await kindsWith(1_000, 2_100_000)).toEqual([]);
});

it('is none where the command had timed out: the library gives the lock up', async () => {
  // The lock is deleted at 1 303 ms, but c1 says so only when that was answered, behind the late answer.
  const kinds = await kindsWith(700_000, 1_350_000);
  expect(kinds).toContain('belief');
  expect(kinds).not.toContain('continuity');
});
