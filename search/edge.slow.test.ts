import { describe, expect, it } from 'vitest';
import { policyWith } from '../deviations/index.js';
import { SEARCHED } from '../properties/property-lists.js';
import { type CheckResult, check } from './check.js';
import { BOUND_IDS, exceedBound, WITHIN_ASSUMPTIONS } from './fault-model.js';

const properties = ['mutual-exclusion', 'quorum-backed', 'no-stale-write'] as const;

/** Histories in which a fault was within 1 % of its bound. */
function atTheEdge({ strained }: CheckResult): number {
  return BOUND_IDS.reduce((sum, bound) => sum + strained[bound].atBound, 0);
}

describe('the lock with its default policy', () => {
  it('withstands 100,000 histories up to the edge of its assumptions', async () => {
    const result = await check({ faultModel: WITHIN_ASSUMPTIONS, seed: 'edge', runs: 100_000, properties: SEARCHED });
    const { exercised, strained, verdict, runs, events } = result;
    console.log(JSON.stringify({ runs, events, atTheEdge: atTheEdge(result), strained, exercised }, null, 1));
    expect(result.counterexample).toBeNull();
    expect(verdict).toBe('passed');
    expect(runs).toBe(100_000);
    expect(result.notHit).toEqual([]);
    // One in a hundred came within a millisecond or a vote of losing what it believed in.
    expect(result.near / runs).toBeGreaterThanOrEqual(0.01);
    // It was not mild: a fault at its bound in 30 % of the histories, a rival in 50 % of the claims.
    expect(atTheEdge(result) / runs).toBeGreaterThanOrEqual(0.3);
    for (const bound of BOUND_IDS) expect([bound, strained[bound].atBound > 1_000]).toEqual([bound, true]);
    expect(exercised.contendedClaims / exercised.claims).toBeGreaterThanOrEqual(0.5);
  });

  it('and with fencing tokens that a resource looks at, 20,000 on three nodes and on five', async () => {
    const policy = policyWith({ settings: { fencing: true } });
    for (const nodes of [3, 5]) {
      const faultModel = { ...WITHIN_ASSUMPTIONS, nodes, policy, resource: 'fencing' } as const;
      const result = await check({ faultModel, seed: 'fenced', runs: 20_000, properties: SEARCHED });
      expect([nodes, result.counterexample]).toEqual([nodes, null]);
      expect(result.near / result.runs).toBeGreaterThanOrEqual(0.01);
    }
  });

  const expected = {
    'clock-drift': 'clock-drift',
    'clock-step': 'clock-step',
    'restart-delay': 'durability',
    'data-loss': 'durability',
    'write-delay': 'bounded-write-delay',
  } as const;
  for (const bound of BOUND_IDS) {
    it(`does not withstand 10,000 that go 0.1 % past the bound on ${bound}`, async () => {
      const faultModel = exceedBound(WITHIN_ASSUMPTIONS, bound, 1.001);
      const { verdict, counterexample } = await check({ faultModel, seed: 'past', runs: 10_000, properties });
      expect(verdict).toBe('violated');
      expect(counterexample?.assumptionsBroken).toEqual([expected[bound]]);
    });
  }
});
