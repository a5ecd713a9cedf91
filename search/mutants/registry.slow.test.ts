import { expect, it } from 'vitest';
import { policyWith } from '../../deviations/index.js';
import { SEARCHED } from '../../properties/property-lists.js';
import { check } from '../check.js';
import { faultModelFor, MUTANTS } from './registry.js';

const weathers = new Map(MUTANTS.map((mutant) => [JSON.stringify(faultModelFor(mutant, false)), mutant]));

it.each([...weathers.values()])('$id is all that is wrong in its faultModel', async (mutant) => {
  const faultModel = faultModelFor(mutant, false);
  expect(faultModel.policy).toEqual(policyWith(mutant.base ?? {}));
  const { counterexample } = await check({ faultModel, seed: mutant.id, runs: 1_000, properties: SEARCHED });
  expect(counterexample).toBeNull();
});
