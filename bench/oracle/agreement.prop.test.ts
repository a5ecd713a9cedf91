import { expect, it } from 'vitest';
import { Monitors } from '../../properties/monitors/monitors.js';
import { loadCatalogue } from '../../scenarios/catalogue.js';
import { variantSchedule } from '../../scenarios/variant.js';
import { compareRuns, disagreementOn, WEATHERS } from './agreement.js';

it('monitors and trace agree on drawn runs of every faultModel, calm and rough', () => {
  const { runs, disagreements, examples, violations } = compareRuns('some', 0, 8 * WEATHERS.length);
  expect({ disagreements, examples }).toEqual({ disagreements: 0, examples: [] });
  expect(runs).toBeGreaterThan(600);
  // Else there was nothing to agree about.
  for (const property of ['mutual-exclusion', 'quorum-backed', 'no-stale-write', 'owner-only-release'] as const) {
    expect([property, (violations[property] ?? 0) > 20]).toEqual([property, true]);
  }
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
