import { describe, expect, it } from 'vitest';
import { type ExpiryModel, WORST_AT } from '../../search/safety-map/adversary.js';
import {
  type Drift,
  greatestRateForExclusion,
  NO_DRIFT,
  PROPORTIONAL_DRIFT,
  USUAL_DRIFT,
} from '../../search/safety-map/rates.js';
import { leastForExclusion, leastForQuorum } from './data-loss.js';
import { longestHold } from './extensions.js';
import { leastRestartDelay } from './restart.js';
import { latestUsefulStep, leastHarmfulClientStepMs, leastHarmfulNodeStepMs } from './steps.js';
import { freeAfterSilence } from './waiting.js';

/** Typed by hand from derivations that were made and checked elsewhere: a formula of this suite cannot be wrong with them. */
describe('published figures', () => {
  /** TTL ms; g 0; g 1; g 1 and a relative validity from ms stamps; the same three for D = 1 %; only nodes; only the client. In %. */
  const RATES: readonly { ttlMs: number; percents: readonly (number | null)[] }[] = [
    { ttlMs: 50, percents: [2.5641, 1.5544, 0.5128, 0.5025, null, null, 5.263, 5.0] },
    { ttlMs: 100, percents: [1.5228, 1.0204, 0.5076, 0.5025, 0, null, 3.093, 3.0] },
    { ttlMs: 1000, percents: [0.6036, 0.5536, 0.503, 0.5025, 0.4525, 0.402, 1.215, 1.2] },
    { ttlMs: 8000, percents: [0.5151, 0.5089, 0.5026, 0.5025, 0.4963, 0.4899, 1.036, 1.025] },
    { ttlMs: 10_000, percents: [0.5126, 0.5076, 0.5026, 0.5025, 0.4975, 0.4925, 1.031, 1.02] },
    { ttlMs: 30_000, percents: [0.5059, 0.5042, 0.5025, 0.5025, 0.5008, 0.4992, 1.017, 1.007] },
  ];
  const columns: readonly { drift: Drift; grain?: ExpiryModel; cutStamps?: boolean; erring?: 'nodes' | 'client' }[] = [
    { drift: USUAL_DRIFT },
    { drift: USUAL_DRIFT, grain: WORST_AT },
    { drift: USUAL_DRIFT, grain: WORST_AT, cutStamps: true },
    { drift: PROPORTIONAL_DRIFT },
    { drift: PROPORTIONAL_DRIFT, grain: WORST_AT },
    { drift: PROPORTIONAL_DRIFT, grain: WORST_AT, cutStamps: true },
    { drift: USUAL_DRIFT, erring: 'nodes' },
    { drift: USUAL_DRIFT, erring: 'client' },
  ];

  it.each(RATES)('largest tolerable errors of rate for a TTL of $ttlMs ms', ({ ttlMs, percents }) => {
    percents.forEach((percent, i) => {
      const column = columns[i];
      if (column === undefined) throw new Error('a figure without a column');
      const measured = greatestRateForExclusion({ ttlMs, delayUs: 0, ...column });
      if (percent === null) {
        expect(measured).toBeLessThan(0);
        return;
      }
      // One unit of the last digit, or what two microseconds are worth (three with cut stamps): each phase is a microsecond short.
      const digit = i < 6 ? 1 : 10;
      const clocks = i < 6 ? 2 : 1;
      const tolerance = Math.max(digit, ((column.cutStamps ? 3 : 2) * 1_000) / ttlMs / clocks);
      expect(Math.abs(measured - 10_000 * percent), `${ttlMs} ms, column ${i}`).toBeLessThanOrEqual(1.1 * tolerance);
    });
  });

  it.each([
    [100, [1.5228, 2.5374, 6.577, 11.54, 42.93]],
    [1000, [0.6036, 0.7042, 1.1066, 1.6094, 5.618]],
    [10_000, [0.5126, 0.5227, 0.5629, 0.6131, 1.0151]],
    [30_000, [0.5059, 0.5092, 0.5226, 0.5394, 0.6734]],
  ])('with round trips of 0, 2, 10, 20 and 100 ms and a TTL of %i ms', (ttlMs, percents) => {
    [0, 2, 10, 20, 100].forEach((roundTripMs, i) => {
      const scale = ttlMs === 100 ? 1000 : 1;
      const measured = greatestRateForExclusion({ ttlMs, drift: USUAL_DRIFT, delayUs: 500 * roundTripMs, scale });
      const percent = percents[i] ?? Number.NaN;
      const lastDigit = percent > 20 ? 100 : percent > 1.1 ? 10 : 1;
      expect(Math.abs(measured - 10_000 * percent), `${roundTripMs} ms`).toBeLessThan(1.01 * lastDigit);
    });
  });

  it('without any allowance only latency tolerates errors of rate', () => {
    const measured = [0, 1_000, 10_000].map((delayUs) =>
      greatestRateForExclusion({ ttlMs: 10_000, drift: NO_DRIFT, delayUs }),
    );
    // Just below 0, 0.01 and 0.1 %.
    expect(measured).toEqual([0, 100, 999]);
  });

  it('a step of 104 ms is harmful without latency, one of 106 ms with 1 ms each way', () => {
    expect([0, 1000].map((delayUs) => leastHarmfulNodeStepMs({ ttlMs: 10_000, delayUs }))).toEqual([104, 106]);
    expect([0, 1000].map((delayUs) => leastHarmfulClientStepMs({ ttlMs: 10_000, delayUs }))).toEqual([104, 106]);
    expect(Math.floor(latestUsefulStep({ ttlMs: 10_000, delayUs: 1000 }) / 1000)).toBe(9896);
  });

  it('restart delays', () => {
    const ms = (ttlMs: number, delayUs: number, crashUs: number, ppm = 0): number =>
      Math.ceil(leastRestartDelay({ ttlMs, delayUs, crashUs, ppm }) / 1000);
    expect([ms(1000, 0, 0), ms(1000, 1000, 1000)]).toEqual([988, 986]);
    expect([1000, 2000, 3000].map((crashUs) => ms(10_000, 1000, crashUs))).toEqual([9896, 9895, 9894]);
    expect([ms(10_000, 0, 0, 5_000), ms(10_000, 0, 0, 10_000)]).toEqual([9998, 10_098]);
  });

  it('nodes with data loss', () => {
    const pairs = (nodes: number, quorum: number): string =>
      Array.from({ length: nodes - quorum + 1 }, (_, i) => ({ nodes, quorum, votes: quorum + i }))
        .map((wanted) => `${leastForExclusion(wanted)}/${leastForQuorum(wanted)}`)
        .join(' ');
    expect(
      [
        [1, 1],
        [2, 2],
        [3, 2],
        [4, 3],
        [5, 3],
        [6, 4],
        [7, 4],
      ].map(([n = 0, q = 0]) => pairs(n, q)),
    ).toEqual(['1/1', '2/1', '1/1 2/2', '2/1 3/2', '1/1 2/2 3/3', '2/1 3/2 4/3', '1/1 2/2 3/3 4/4']);
  });

  it('a lock is held for at most M + 1 TTLs, and is free 10002 ms after the call of a holder that crashed', () => {
    for (const extensions of [0, 1, 5]) {
      const { endUs } = longestHold({ ttlMs: 1000, delayUs: 1000 }, extensions);
      expect(endUs).toBeLessThan((extensions + 1) * 1_000_000);
    }
    expect(freeAfterSilence({ ttlMs: 10_000, delayUs: 1000 })).toBe(10_002_000);
  });
});
