import { describe, expect, it } from 'vitest';
import { DETECTION_RUNS, detectMutant } from './detect.js';
import { MUTANTS } from './registry.js';

/** Caught soon; all others are hunted in search/shrinking/minimal.slow.test.ts. */
const SOON: readonly string[] = ['M02', 'M04', 'M07', 'M21'];

describe('the hunt', () => {
  it.each(MUTANTS.filter(({ id }) => SOON.includes(id)))('catches $id by $expect', async (mutant) => {
    const found = await detectMutant(mutant, { seeds: 1 });
    expect(found).toMatchObject({ id: mutant.id, caughtBy: mutant.expect, searches: 1, caught: 1 });
    expect(found.historiesMedian).toBeLessThan(DETECTION_RUNS);
    expect(found.shrunkEvents).toBeGreaterThan(0);
  });

  it('counts a miss as the cap, and takes the median of the searches', async () => {
    const harmless = { id: 'M00', story: '', instance: '', change: {}, expect: 'quorum-backed' } as const;
    let cpu = 0;
    // Searches of 1, 2 and 3 ms.
    const readings = [0, 1, 1, 3, 3, 6];
    const cpuMs = (): number => readings[cpu++] ?? 0;
    expect(await detectMutant(harmless, { seeds: 3, runs: 20, cpuMs })).toEqual({
      id: 'M00',
      strategy: 'combination',
      heldOut: true,
      caughtBy: null,
      searches: 3,
      caught: 0,
      historiesMedian: 20,
      cpuMsMedian: 2,
      cpuMsFirst: 1,
      cpuMsAll: 6,
      shrunkEvents: null,
    });
  });

  it('ends when it is told to', async () => {
    const [mutant] = MUTANTS;
    if (mutant === undefined) throw new Error('there is no planted bug');
    const { searches, caughtBy } = await detectMutant(mutant, { signal: AbortSignal.abort() });
    expect({ searches, caughtBy }).toEqual({ searches: 0, caughtBy: null });
  });
});
