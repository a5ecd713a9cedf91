import { expect, it } from 'vitest';
import { compareRuns } from './agreement.js';
import { OFFLINE } from './offline.js';

it('monitors and trace agree on 20,000 drawn runs, in which every property is violated', () => {
  const { disagreements, examples, violations } = compareRuns('slow', 0, 20_000);
  expect({ disagreements, examples }).toEqual({ disagreements: 0, examples: [] });
  const violated = OFFLINE.filter((property) => property in violations).sort();
  expect(violated).toEqual(OFFLINE.filter((property) => property !== 'conservation').sort());
});
