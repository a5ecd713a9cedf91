import { describe, expect, it } from 'vitest';
import { assumptions } from '../properties/assumptions.js';
import { noCounts } from '../properties/coverage.js';
import { SEARCHED } from '../properties/property-lists.js';
import { RandomStreams, simulate } from '../sim/index.js';
import { check } from './check.js';
import { exceedBound, WITHIN_ASSUMPTIONS } from './fault-model.js';
import { generateRun, recordRun } from './generated-run.js';
import { STRATEGY_INFO, STRATEGY_NAMES, type StrategyName } from './strategy-info.js';

/** Hashes of the first runs of a search, each as drawn and as replayed from its record. */
function hashes(strategy: StrategyName, seed: string, runs: number): string[] {
  const { tactics } = STRATEGY_INFO[strategy];
  const streams = new RandomStreams(seed);
  return Array.from({ length: runs }, (_, run) => {
    const drawn = generateRun(WITHIN_ASSUMPTIONS, streams, run, noCounts(), tactics).world.context.trace.digest();
    const { schedule, hash } = recordRun(WITHIN_ASSUMPTIONS, streams, run, tactics);
    expect(hash).toBe(drawn);
    expect(simulate(schedule).hash).toBe(drawn);
    // With as many votes as were given, nodes may forget; how many those were the schedule does not say.
    expect(assumptions(schedule, WITHIN_ASSUMPTIONS.policy).filter((it) => it !== 'durability')).toEqual([]);
    return drawn;
  });
}

describe.each(STRATEGY_NAMES)('%s', (strategy) => {
  it('makes the same runs from the same seed, which replay from their records', () => {
    const first = hashes(strategy, 'same', 200);
    expect(hashes(strategy, 'same', 200)).toEqual(first);
    expect(hashes(strategy, 'another', 200)).not.toEqual(first);
    expect(new Set(first).size).toBeGreaterThan(150);
  });

  it('raises no alarm within the assumptions, and is no mild search', async () => {
    const result = await check({
      faultModel: WITHIN_ASSUMPTIONS,
      strategy,
      seed: 's',
      runs: 3_000,
      properties: SEARCHED,
    });
    expect(result).toMatchObject({ verdict: 'passed', strategy, runs: 3_000 });
    expect(result.near / result.runs).toBeGreaterThan(0.05);
  });

  it('finds what lies 2 % past a bound', async () => {
    const faultModel = exceedBound(WITHIN_ASSUMPTIONS, 'clock-step', 1.02);
    const options = { faultModel, strategy, seed: 's', runs: 10_000, properties: SEARCHED, shrink: false };
    expect((await check(options)).verdict).toBe('violated');
  });
});
