import { expect, it } from 'vitest';
import { policyWith } from '../../deviations/index.js';
import { MONITORED } from '../../properties/property-lists.js';
import { check } from '../check.js';
import { MUTANTS, weatherFor } from './registry.js';

const weathers = new Map(MUTANTS.map((mutant) => [JSON.stringify(weatherFor(mutant, false)), mutant]));

it.each([...weathers.values()])('$id is all that is wrong in its weather', async (mutant) => {
  const weather = weatherFor(mutant, false);
  expect(weather.policy).toEqual(policyWith(mutant.base ?? {}));
  const { counterexample } = await check({ weather, seed: mutant.id, runs: 1_000, properties: MONITORED });
  expect(counterexample).toBeNull();
});
