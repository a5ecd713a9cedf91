import { expect, test } from 'vitest';
import { applyChanges } from './change.js';
import everyField from './fixtures/every-field.json' with { type: 'json' };
import { ScheduleError } from './input-error.js';
import { parseSchedule } from './parse-schedule.js';
import type { Change } from './scenario.js';

const schedule = parseSchedule(everyField.schedule);

test('changes a copy, in order', () => {
  const before = structuredClone(schedule);
  const changed = applyChanges(schedule, [
    { op: 'replace', path: '/faults/0/atUs', value: 4000 },
    { op: 'remove', path: '/fates/0' },
    { op: 'remove', path: '/fates/0/lost' },
    { op: 'add', path: '/fates/0/delayUs', value: 7 },
    { op: 'add', path: '/faults/-', value: { kind: 'crash', atUs: 1, node: 'n0', restartAfterUs: null } },
    { op: 'add', path: '/faults/0', value: { kind: 'crash', atUs: 2, node: 'n1', restartAfterUs: null } },
  ]);
  expect(changed.faults[1]).toEqual({ ...schedule.faults[0], atUs: 4000 });
  expect(changed.fates[0]).toEqual({
    client: 'c1',
    operation: 'acquire',
    node: 'n3',
    direction: 'request',
    delayUs: 7,
  });
  expect([changed.faults.length, changed.faults[0]?.atUs, changed.faults.at(-1)?.atUs]).toEqual([12, 2, 1]);
  expect(schedule).toStrictEqual(before);
});

test('says which change cannot be made, and why', () => {
  const wrong: Change[] = [
    { op: 'replace', path: '/cluster/delayMs', value: 1 },
    { op: 'remove', path: '/faults/8' },
    { op: 'replace', path: '/faults/x', value: 1 },
    { op: 'replace', path: '/faults/01', value: 1 },
    { op: 'replace', path: '/faults/-', value: 1 },
    { op: 'add', path: '/faults/9', value: 1 },
    { op: 'replace', path: '/clients/0/locks/1/writes/0', value: 1 },
    { op: 'replace', path: '/untilUs/seconds', value: 1 },
    { op: 'replace', path: '/colour', value: 1 },
    { op: 'add', path: '/__proto__/polluted', value: 1 },
    { op: 'add', path: '', value: 1 },
    { op: 'replace', path: '/cluster/nodes', value: 2 },
    { op: 'add', path: '/colour', value: 'red' },
  ];
  expect(wrong.map((change) => complaint([change]))).toMatchInlineSnapshot(`
    [
      "/0/path: "/cluster/delayMs" does not exist: /cluster has no "delayMs"; did you mean "delayUs"?",
      "accepted",
      "/0/path: "/faults/x" does not exist: /faults has the places 0 to 9",
      "/0/path: "/faults/01" does not exist: /faults has the places 0 to 9",
      "/0/path: "/faults/-" does not exist: /faults has the places 0 to 9",
      "the changed schedule is wrong at /faults/9: 1 is not a fault (an object)",
      "/0/path: "/clients/0/locks/1/writes/0" does not exist: /clients/0/locks/1/writes is an empty list",
      "/0/path: "/untilUs/seconds" does not exist: /untilUs is 60000000, with nothing inside",
      "/0/path: "/colour" does not exist: the schedule has no "colour"; it has schema, cluster, policy, clients, faults, fates, resource, untilUs",
      "/0/path: "/__proto__/polluted" does not exist: the schedule has no "__proto__"; it has schema, cluster, policy, clients, faults, fates, resource, untilUs",
      "/0/path: "" is not a place inside the schedule",
      "the changed schedule is wrong at /clients/0/nodes/0: "n4" is not a node; the cluster has n0 to n1",
      "the changed schedule is wrong at /colour: not a field of a schedule; the fields are schema, cluster, policy, clients, faults, fates, resource, untilUs",
    ]
  `);
  expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
});

test('names the place of the change where it is told', () => {
  const changes: Change[] = [
    { op: 'replace', path: '/untilUs', value: 1 },
    { op: 'remove', path: '/until' },
  ];
  expect(() => applyChanges(schedule, changes, '/flips/2/change')).toThrow(
    expect.objectContaining({ path: '/flips/2/change/1/path' }),
  );
});

function complaint(changes: readonly Change[]): string {
  try {
    applyChanges(schedule, changes);
    return 'accepted';
  } catch (error) {
    expect(error).toBeInstanceOf(ScheduleError);
    return String(error instanceof Error ? error.message : error);
  }
}
