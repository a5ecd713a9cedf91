import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import everyField from './fixtures/every-field.json' with { type: 'json' };
import { ScheduleError } from './input-error.js';
import { layOut } from './json-layout.js';
import { parseScenario, parseScenarioText } from './parse.js';
import { parseSchedule, parseScheduleText } from './parse-schedule.js';
import type { Fate, Fault, LockPlan, Schedule } from './schedule.js';
import { formatSchedule } from './write.js';
import { formatScenario } from './write-scenario.js';

const us = fc.nat({ max: 2 ** 31 - 1 });
const node = fc.nat({ max: 4 }).map((index) => `n${index}`);
const client = fc.constantFrom('c1', 'c2');

const lock: fc.Arbitrary<LockPlan> = fc.record({
  atUs: us,
  resources: fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 4 }),
  ttlMs: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  holdUs: fc.option(us),
  extensions: fc.array(fc.record({ afterUs: us, ttlMs: fc.constant(10) }), { maxLength: 3 }),
  writes: fc.array(
    fc.record({ checkAfterUs: us, guardUs: fc.option(us), sendAfterUs: us, delayUs: us }).map((write) => ({
      ...write,
      sendAfterUs: write.checkAfterUs + write.sendAfterUs,
    })),
    { maxLength: 3 },
  ),
  jitterPpm: fc.array(fc.nat({ max: 999_999 }), { maxLength: 40 }),
});

const fault: fc.Arbitrary<Fault> = fc.oneof(
  fc.record(
    {
      kind: fc.constant('crash' as const),
      atUs: us,
      edge: fc.constantFrom('before', 'after'),
      node,
      restartAfterUs: fc.option(us),
    },
    { requiredKeys: ['kind', 'atUs', 'node', 'restartAfterUs'] },
  ),
  fc.record({ kind: fc.constant('pause' as const), atUs: us, process: fc.oneof(node, client), forUs: us }),
  fc.record({
    kind: fc.constant('partition' as const),
    atUs: us,
    from: fc.uniqueArray(client, { minLength: 1 }),
    to: fc.uniqueArray(node, { minLength: 1 }),
    oneWay: fc.boolean(),
    forUs: us,
  }),
);

const fate: fc.Arbitrary<Fate> = fc.record(
  {
    client,
    attempt: fc.nat({ max: 3 }),
    operation: fc.constantFrom('acquire', 'extend', 'release'),
    node,
    direction: fc.constantFrom('request', 'reply'),
    delayUs: us,
    duplicateDelayUs: us,
  },
  { requiredKeys: ['client', 'operation', 'node', 'direction'] },
);

const schedule: fc.Arbitrary<Schedule> = fc
  .record({
    locks: fc.tuple(fc.array(lock, { minLength: 1, maxLength: 3 }), fc.array(lock, { minLength: 1, maxLength: 3 })),
    faults: fc.array(fault),
    fates: fc.uniqueArray(fate, {
      selector: (one) => [one.client, one.attempt ?? 0, one.operation, one.node, one.direction].join(),
    }),
    untilUs: us,
  })
  // As JSON has it: the library's records have no prototype.
  .map((drawn) => structuredClone(drawn))
  .map(({ locks: [first, second], faults, fates, untilUs }) => ({
    ...parseSchedule(everyField.schedule),
    clients: [
      { id: 'c1', locks: first },
      { id: 'c2', locks: second },
    ],
    faults,
    fates,
    untilUs,
  }));

test('what is written reads back the same', () => {
  fc.assert(
    fc.property(schedule, (written) => {
      expect(parseScheduleText(formatSchedule(written), 'file')).toStrictEqual(written);
      const scenario = { ...parseScenario(everyField), schedule: written, expect: { verdict: 'safe' as const } };
      expect(parseScenarioText(formatScenario(scenario), 'file')).toStrictEqual(scenario);
    }),
  );
});

test('equal schedules have equal texts, whatever the order of their fields', () => {
  const { schedule: original } = parseScenario(everyField);
  const turned = structuredClone(original);
  const backwards = { ...turned, faults: turned.faults.map(reversed) };
  expect(Object.keys(backwards.faults[0] ?? {})).not.toEqual(Object.keys(original.faults[0] ?? {}));
  expect(formatSchedule(backwards)).toBe(formatSchedule(original));
});

function reversed<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).reverse()) as T;
}

test('a file of the project is written as it is kept', () => {
  const kept = readFileSync(new URL('./fixtures/every-field.json', import.meta.url), 'utf8');
  expect(formatScenario(parseScenario(everyField))).toBe(kept);
});

test('what could not be read is not written', () => {
  const broken = { ...parseSchedule(everyField.schedule), untilUs: -1 };
  expect(() => formatSchedule(broken)).toThrow(ScheduleError);
});

describe('the layout', () => {
  test('fills lines up to 120 columns and no further', () => {
    const text = layOut({
      short: { a: 1, b: [] },
      numbers: Array.from({ length: 40 }, (_, index) => index * 1000),
      none: {},
    });
    expect(text).toMatchInlineSnapshot(`
      "{
        "short": { "a": 1, "b": [] },
        "numbers": [
          0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 11000, 12000, 13000, 14000, 15000, 16000, 17000,
          18000, 19000, 20000, 21000, 22000, 23000, 24000, 25000, 26000, 27000, 28000, 29000, 30000, 31000, 32000, 33000,
          34000, 35000, 36000, 37000, 38000, 39000
        ],
        "none": {}
      }
      "
    `);
  });

  test('breaks exactly where a line would be 121 columns', () => {
    const lines = (length: number): number => layOut({ a: { b: 'x'.repeat(length) } }).split('\n').length;
    // `  "a": { "b": "…" }` is 18 columns without the text.
    expect([lines(120 - 18), lines(121 - 18)]).toEqual([4, 6]);
  });

  test('leaves out what is undefined', () => {
    expect(layOut({ a: undefined, b: { c: undefined } })).toBe('{\n  "b": {}\n}\n');
  });
});
