import { expect, it } from 'vitest';
import { Monitors } from '../../properties/monitors/monitors.js';
import { loadCatalogue } from '../../scenarios/catalogue.js';
import { variantSchedule } from '../../scenarios/variant.js';
import { compareRuns, disagreementOn, WEATHERS } from './agreement.js';
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

it('monitors that are not asked when nobody could acquire find the same violations', () => {
  const runs = 2 * WEATHERS.length;
  const { violations, outages } = compareRuns('asked', 0, runs);
  const unasked = compareRuns('asked', 0, runs, (setup) => new Monitors(setup));
  expect(unasked.violations).toEqual(violations);
  // The keys that were in the way are those that liveness goes by.
  expect(outages['orphaned-keys'] ?? 0).toBeGreaterThan(20);
  expect(unasked.outages).toEqual({});
});

it('monitors and trace agree on the catalogue and its variants', () => {
  let compared = 0;
  for (const scenario of loadCatalogue()) {
    const variants = [...scenario.flips, ...scenario.neighbours].map((variant) => variantSchedule(scenario, variant));
    for (const schedule of [scenario.schedule, ...variants]) {
      compared++;
      expect([scenario.id, disagreementOn(schedule)]).toEqual([scenario.id, null]);
    }
  }
  expect(compared).toBeGreaterThan(350);
});
