import { expect, it } from 'vitest';
import { DEVIATIONS, PROFILES, parseDeviation } from '../../deviations/index.js';
import { faultModelFor, MUTANTS } from './registry.js';

/** Those that only scenarios, or tests of the explorer, need. */
const ELSEWHERE = ['quorum', 'key-thousandfold-per-retry', 'extends-present', 'fence-without-token'];

it('has no deviation that no known client has and no planted bug is made of', () => {
  const policies = [...Object.values(PROFILES), ...MUTANTS.map((mutant) => faultModelFor(mutant).policy)];
  const named = new Set(
    policies.flatMap(({ deviations }) => deviations).map((reference) => parseDeviation(reference).name),
  );
  expect(Object.keys(DEVIATIONS).filter((name) => !named.has(name))).toEqual(ELSEWHERE);
});

it('plants each deviation that a bug names', () => {
  for (const mutant of MUTANTS) {
    const { deviations = [] } = mutant.change;
    const found = faultModelFor(mutant).policy.deviations;
    expect([mutant.id, found]).toEqual([mutant.id, expect.arrayContaining([...deviations])]);
  }
});
