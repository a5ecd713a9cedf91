import { expect, test } from 'vitest';
import everyField from './fixtures/every-field.json' with { type: 'json' };
import { mitigate } from './mitigations.js';
import { parseScenario } from './parse.js';
import type { Scenario, Variant } from './scenario.js';
import { variantSchedule } from './variant.js';

const scenario = parseScenario(everyField);

/** The scenario with one neighbour, and what its schedule is. */
function neighbour(fields: Omit<Variant, 'title' | 'expect'>): ReturnType<typeof variantSchedule> {
  const variant: Variant = { title: 'as said', expect: { verdict: 'safe' }, ...fields };
  const whole: Scenario = { ...scenario, neighbours: [variant] };
  return variantSchedule(whole, variant);
}

test('applies the mitigation, then the changes', () => {
  const value = { kind: 'crash', atUs: 0, node: 'n0', restartAfterUs: 5 };
  const varied = neighbour({ with: 'restart-delay=12s', change: [{ op: 'add', path: '/faults/0', value }] });
  expect(varied.faults).toEqual([value, ...mitigate(scenario.schedule, 'restart-delay=12s').faults]);
});

test('says where in the scenario the variant is wrong', () => {
  expect(() => neighbour({ with: 'fsync=maybe' })).toThrowErrorMatchingInlineSnapshot(
    `[ScheduleError: /neighbours/0/with: mitigation "fsync=maybe": "maybe" is not one of its values; they are always, everysec, no]`,
  );
  expect(() => neighbour({ change: [{ op: 'remove', path: '/fault' }] })).toThrowErrorMatchingInlineSnapshot(
    `[ScheduleError: /neighbours/0/change/0/path: "/fault" does not exist: the schedule has no "fault"; did you mean "faults"?]`,
  );
  const change = [{ op: 'replace', path: '/cluster/nodes', value: 3 }] as const;
  expect(() => neighbour({ change })).toThrowErrorMatchingInlineSnapshot(
    `[ScheduleError: /neighbours/0/change: the changed schedule is wrong at /clients/0/nodes/0: "n4" is not a node; the cluster has n0 to n2]`,
  );
});
