import { describe, expect, it } from 'vitest';
import { RandomStreams } from '../sim/index.js';
import { CorrelatedDisruption } from './correlated-disruption.js';
import { type FaultModel, WITHIN_ASSUMPTIONS } from './fault-model.js';
import { generateRun } from './generated-run.js';

/** How late the requests of so many locks are, node by node. */
function lateness(faultModel: Partial<FaultModel>, locks: number): number[][] {
  const all = { ...WITHIN_ASSUMPTIONS, ...faultModel };
  const reach = new CorrelatedDisruption(all, new RandomStreams('reach').stream(0, 0));
  return Array.from({ length: locks }, (_, lock) => {
    reach.next(0);
    return Array.from({ length: all.nodes }, (_none, node) =>
      // What else a message is makes no difference.
      reach.lateUs({ client: 0, lock, node } as Parameters<CorrelatedDisruption['lateUs']>[0]),
    );
  });
}

describe('what a lock does not reach', () => {
  it('is a minority of the nodes, by the same time or for ever, and another one for the next lock', () => {
    const all = lateness({}, 300);
    for (const late of all) {
      const gaps = late.filter((it) => it > 0);
      expect(gaps.length).toBeLessThanOrEqual(2);
      expect(new Set(gaps).size).toBeLessThanOrEqual(1);
    }
    const seen = new Set(all.map((late) => late.map((it) => Number(it > 0)).join('')));
    // None, one of five, two of five.
    expect(seen.size).toBe(1 + 5 + 10);
    expect(all.flat()).toContain(Number.POSITIVE_INFINITY);
    expect(all.flat().some((it) => it > 50_000 && Number.isFinite(it))).toBe(true);
  });

  it('keeps to what the faultModel allows, and to a majority within reach', () => {
    expect(lateness({ lossPpm: 0 }, 100).flat()).not.toContain(Number.POSITIVE_INFINITY);
    expect(new Set(lateness({ spikePpm: 0 }, 100).flat())).toEqual(new Set([0, Number.POSITIVE_INFINITY]));
    expect(new Set(lateness({ lossPpm: 0, spikePpm: 0 }, 100).flat())).toEqual(new Set([0]));
    expect(new Set(lateness({ nodes: 2 }, 100).flat())).toEqual(new Set([0]));
  });
});

it('locks that are handed on quickly are many more than others', () => {
  const streams = new RandomStreams('handovers');
  const asked: Record<string, number[]> = { true: [], false: [] };
  for (let run = 0; run < 300; run++) {
    const { runConfig, world } = generateRun(WITHIN_ASSUMPTIONS, streams, run);
    asked[String(runConfig.handovers)]?.push(world.clients.reduce((sum, { locks }) => sum + locks.length, 0));
  }
  const mean = (of: readonly number[] = []): number => of.reduce((sum, it) => sum + it, 0) / of.length;
  expect(asked.true?.length).toBeGreaterThan(15);
  expect(mean(asked.true)).toBeGreaterThan(2 * mean(asked.false));
});
