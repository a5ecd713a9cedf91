import { expect, it } from 'vitest';
import { findScenario } from '../scenarios/catalogue.js';
import { formatSchedule } from '../scenarios/index.js';
import { formatClientFailure, parseClientSchedule, replayOf } from './failure-file.js';

const { schedule } = findScenario('S03');
const failure = { client: { from: 'library', name: 'redlock5' }, kind: 'belief', extending: true, schedule } as const;

it('reads what it has written, and a schedule that is nobody’s', () => {
  const text = formatClientFailure(failure);
  expect(parseClientSchedule(text, 'a.json')).toEqual({
    schedule,
    failure: { schema: 'lockstep.client-failure/1', ...failure },
  });
  expect(parseClientSchedule(formatSchedule(schedule), 'a.json')).toEqual({ schedule, failure: null });
});

it('keeps what was said of an audited lock', () => {
  const said = { acquire: 'take', release: 'drop', client: 'node-redis', nodes: 3 };
  const audited = { ...failure, client: { from: 'audit', name: 'src/lock.ts', said } } as const;
  expect(parseClientSchedule(formatClientFailure(audited), 'a.json').failure).toMatchObject(audited);
  const text = formatClientFailure(audited).replace('"nodes": 3', '"nodes": 0');
  expect(() => parseClientSchedule(text, 'a.json')).toThrow('a.json: /client/said/nodes: 0 is not');
});

it('says what is wrong in a file', () => {
  const text = formatClientFailure(failure).replace('"belief"', '"believe"');
  expect(() => parseClientSchedule(text, 'a.json')).toThrow('a.json: /kind: "believe" is unknown');
  expect(() => parseClientSchedule('{ "schema": "lockstep.client-failure/1" }', 'a.json')).toThrow('a.json: /client');
});

it('names what shows it again, to be pasted', () => {
  const of = (from: 'library' | 'file' | 'test' | 'audit', name: string, extending = false): string =>
    replayOf({ client: { from, name }, extending }, 'x/a b.json', 'npx lockstep');
  expect(of('library', 'redlock5', true)).toBe(
    "npx lockstep libraries --replay 'x/a b.json' --only redlock5 --auto-extend",
  );
  expect(of('file', './my-lock.ts')).toBe("npx lockstep libraries --replay 'x/a b.json' --file ./my-lock.ts");
  expect(of('audit', 'src/lock.ts')).toBe("npx lockstep audit --replay 'x/a b.json'");
  expect(of('test', 'the client')).toBe("expectSafe(…, { replay: 'x/a b.json' })");
});
