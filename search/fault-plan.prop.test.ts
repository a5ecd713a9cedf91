import { expect, it } from 'vitest';
import { policyWith } from '../deviations/index.js';
import { check } from './check.js';
import { WITHIN_ASSUMPTIONS } from './fault-model.js';

it('a lock that extends itself is safe up to the edge of its assumptions', async () => {
  const faultModel = { ...WITHIN_ASSUMPTIONS, policy: policyWith({ settings: { autoExtendAtUs: 200_000 } }) };
  const properties = ['mutual-exclusion', 'quorum-backed', 'continuity'] as const;
  const { verdict, exercised } = await check({ faultModel, seed: 'auto', runs: 5_000, properties });
  expect(verdict).toBe('passed');
  expect(exercised.extensions).toBeGreaterThan(5_000);
});
