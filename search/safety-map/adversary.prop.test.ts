import { describe, expect, it } from 'vitest';
import type { Fate } from '../../scenarios/index.js';
import { type RandomStream, RandomStreams } from '../../sim/index.js';
import { WORST } from './adversary.js';
import { greatestRateForExclusion, rateAttack, USUAL_DRIFT } from './rates.js';
import { observeRun, type RunObservation } from './watch.js';

const CASE = { ttlMs: 10_000, delayUs: 1000 };

describe('no other schedule does better', () => {
  const LATEST_US = 40_000;
  const PROCESSES = ['c1', 'c2', 'n0', 'n1', 'n2', 'n3', 'n4'];

  /** Clocks, phases, delays and votes at random, within the same limits, and the rival again at the first free instant. */
  function drawn(stream: RandomStream, ppm: number): RunObservation {
    const { schedule } = rateAttack({ ...CASE, drift: USUAL_DRIFT, grain: WORST }, 0);
    const [c1, c2] = schedule.clients;
    const [plan] = c2?.locks ?? [];
    if (c1 === undefined || plan === undefined) throw new Error('two clients were expected');
    const clocks = PROCESSES.map((process) => ({
      process,
      offsetUs: stream.below(1000),
      ratePpm: stream.pick([-ppm, ppm, ppm, stream.between(-ppm, ppm)]) * (process === 'c1' ? -1 : 1),
    }));
    const fates = [0, 1, 2, 3, 4].flatMap((node): Fate[] => {
      const about = { client: 'c1', operation: 'acquire', node: `n${node}` } as const;
      if (node > 2 && stream.chance(500_000)) return [{ ...about, direction: 'request', lost: true }];
      const delayUs = (): number => stream.pick([CASE.delayUs, stream.between(CASE.delayUs, LATEST_US)]);
      return (['request', 'reply'] as const).map((direction) => ({ ...about, direction, delayUs: delayUs() }));
    });
    const calm = { ...schedule, cluster: { ...schedule.cluster, clocks }, clients: [c1], fates };
    const { freeUs } = observeRun(calm, LATEST_US);
    if (freeUs === null) throw new Error('a quorum never gets free');
    return observeRun({ ...calm, clients: [c1, { id: 'c2', locks: [{ ...plan, atUs: freeUs - CASE.delayUs }] }] });
  }

  it.each([
    ['at the boundary none overlaps', 0, false],
    ['a tenth beyond it some do', 500, true],
  ])('%s', (_, beyondPpm, overlapping) => {
    const stream = new RandomStreams('bounds').stream(0, 0);
    const ppm = beyondPpm + greatestRateForExclusion({ ...CASE, drift: USUAL_DRIFT });
    const sights = Array.from({ length: 1_000 }, () => drawn(stream, ppm));
    expect(sights.filter((sight) => sight.claims.length !== 2)).toEqual([]);
    expect(sights.some((sight) => sight.overlap)).toBe(overlapping);
  });
});
