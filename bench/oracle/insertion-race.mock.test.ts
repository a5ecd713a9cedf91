import { expect, it, vi } from 'vitest';
import { exceedBound, WITHIN_ASSUMPTIONS } from '../../search/fault-model.js';
import { recordRun } from '../../search/generated-run.js';
import { RandomStreams } from '../../sim/index.js';
import { simulate } from '../../sim/simulate.js';

const planted = vi.hoisted(() => ({ race: false, order: 0 }));

/** Planted where asked for: at one instant, whatever was put into the queue first comes first, whatever it is. */
vi.mock('../../sim/queue.js', async (original) => {
  const queue = await original<typeof import('../../sim/queue.js')>();
  const rankOf = (cls: Parameters<typeof queue.rankOf>[0], order: number): number =>
    planted.race ? planted.order++ : queue.rankOf(cls, order);
  return { ...queue, rankOf };
});

/** The first of these drawn runs that gives another hash when it is replayed from what was written down; -1 if none does. */
function firstDiffering(): number {
  const faultModel = exceedBound(WITHIN_ASSUMPTIONS, 'restart-delay', 1.5);
  const streams = new RandomStreams('race');
  return Array.from({ length: 100 }).findIndex((_, run) => {
    const { schedule, hash } = recordRun(faultModel, streams, run);
    return simulate(schedule).hash !== hash;
  });
}

it('equal-time events in the order of their insertion do not replay, and the replay check says so (M56)', () => {
  expect(firstDiffering()).toBe(-1);
  planted.race = true;
  expect(firstDiffering()).toBeGreaterThanOrEqual(0);
});
