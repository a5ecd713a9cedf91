import { expect, it } from 'vitest';
import { policyWith } from '../deviations/index.js';
import { assumptionBoundsOf } from './bounds.js';

// Section 3.2 of the theory: r* with D = 1 % + 2 ms and no latency, rounded inwards; on both sides, on the nodes, on the clients alone.
it.each([
  [50, 25_641, 52_631, 50_000, 2_500, 47_500],
  [100, 15_228, 30_927, 30_000, 3_000, 97_000],
  [1_000, 6_036, 12_145, 12_000, 12_000, 988_000],
  [8_000, 5_151, 10_356, 10_250, 82_000, 7_918_000],
  [10_000, 5_126, 10_305, 10_200, 102_000, 9_898_000],
  [30_000, 5_058, 10_169, 10_066, 302_000, 29_698_000],
])('the bounds for a TTL of %i ms are those of the theory', (ttlMs, both, node, client, stepUs, restartUs) => {
  expect(assumptionBoundsOf(policyWith({ deviations: ['drift-unrounded'] }), ttlMs)).toEqual({
    bothRatesPpm: both,
    nodeRatePpm: node,
    clientRatePpm: client,
    stepUs,
    restartUs,
  });
});
