import { expect, test } from 'vitest';
import { loadCatalogue } from '../../scenarios/catalogue.js';
import { lock, schedule } from '../../sim/testing/schedule.js';
import { simulated, staged } from '../testing/same-words.js';
import { beyondVirtual, useVirtualTime } from '../testing/virtual-stage.js';
import { notReplayableReason } from './index.js';

/*
 * One schedule, one meaning: the clients of the stage and those of the simulator, in virtual time, on the same nodes.
 */

useVirtualTime();

test('a client that is frozen across its check writes so long after the claim', () => {
  const write = { checkAfterUs: 500_000, guardUs: 0, sendAfterUs: 660_000, delayUs: 1_000 };
  const at = (forUs: number): string[] => {
    const plan = schedule({
      locks: [[lock(0, { writes: [write] })]],
      faults: [{ kind: 'pause', process: 'c1', atUs: 400_000, forUs }],
    });
    expect(staged(plan)).toEqual(simulated(plan));
    return simulated(plan).filter((line) => line.endsWith(' write'));
  };
  expect(at(250_000)).toEqual(['663 c1/0 write']);
  expect(at(400_000)).toEqual(['801 c1/0 write']);
});

/** Timers of two clients at one instant: whose comes first, the simulator says by a rule, and nobody else. */
const TIES = ['S56'];

const playable = loadCatalogue().filter(
  ({ id, schedule: it }) => !TIES.includes(id) && !beyondVirtual(it) && notReplayableReason(it, true) === null,
);

test('is a test of a good part of the catalogue', () => expect(playable.length).toBeGreaterThan(40));

test.each(playable.map(({ id, schedule: it }) => [id, it] as const))('%s', (_, plan) => {
  expect(staged(plan)).toEqual(simulated(plan));
});
