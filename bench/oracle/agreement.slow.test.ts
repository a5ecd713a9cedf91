import { expect, it } from 'vitest';
import { compareRuns } from './agreement.js';
import { OFFLINE } from './offline.js';

const violated = new Set<string>();

it.each([0, 4_000, 8_000])('monitors and trace agree on 4,000 drawn runs from number %i on', (from) => {
  const { disagreements, examples, violations } = compareRuns('slow', from, from + 4_000);
  expect({ disagreements, examples }).toEqual({ disagreements: 0, examples: [] });
  for (const property of Object.keys(violations)) violated.add(property);
});

it('every property is violated in some of them', () => {
  expect([...violated].sort()).toEqual(OFFLINE.filter((property) => property !== 'message-integrity').sort());
});
