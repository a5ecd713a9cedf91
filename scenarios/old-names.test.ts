import { expect, it } from 'vitest';
import { findScenario } from './catalogue.js';
import { withNamesOfToday } from './old-names.js';
import { parseScenario } from './parse.js';
import { parseSchedule } from './parse-schedule.js';

/** Plain data as version 0.1 wrote it. */
function asIn01(value: unknown): unknown {
  const text = JSON.stringify(value)
    .replaceAll('"kind":"data-loss"', '"kind":"forget"')
    .replaceAll('"kind":"error-replies"', '"kind":"refuse"')
    .replaceAll('"kind":"clock-drift"', '"kind":"clock-rate"')
    .replaceAll('"property":"quorum-backed"', '"property":"validity"');
  return JSON.parse(text);
}

it.each(['F6', 'S15b', 'S65'])('reads the faults of %s by their names of 0.1', (id) => {
  const { schedule } = findScenario(id);
  const old = asIn01(schedule);
  expect(old).not.toEqual(JSON.parse(JSON.stringify(schedule)));
  expect(parseSchedule(old)).toEqual(schedule);
});

it('reads expectations and variants of a scenario by their names of 0.1', () => {
  for (const id of ['S57', 'S64', 'S65']) {
    const scenario = findScenario(id);
    expect(asIn01(scenario)).not.toEqual(JSON.parse(JSON.stringify(scenario)));
    expect(parseScenario(asIn01(scenario))).toEqual(scenario);
  }
});

it('leaves the same words alone elsewhere', () => {
  expect(withNamesOfToday({ title: 'validity', faults: [{ kind: 'crash' }], kind: 'late' })).toEqual({
    title: 'validity',
    faults: [{ kind: 'crash' }],
    kind: 'late',
  });
});
