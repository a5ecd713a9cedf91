import { readFileSync } from 'node:fs';
import { applyPatch, type Operation } from 'rfc6902';
import { expect, it, vi } from 'vitest';
import * as withZod from '../../scenarios/read-schedule.js';

vi.resetModules();
vi.doMock('../../scenarios/zod.js', () => import('./small-zod.js'));
const { readSchedule } = await import('../../scenarios/read-schedule.js');

/** A schedule with every field. */
const { schedule } = JSON.parse(
  readFileSync(new URL('../../scenarios/fixtures/every-field.json', import.meta.url), 'utf8'),
);

/** What takes the place of each value, one after the other. */
const VALUES = [null, -1, 0.5, 'crash', '', [], {}, { kind: 'crash', colour: 'red' }];

/** The pointers to all values of the first two elements of lists, and of all faults and fates. */
function pointersIn(value: unknown, at = ''): string[] {
  if (typeof value !== 'object' || value === null) return [at];
  const isAlike = Array.isArray(value) && !/\/(faults|fates)$/.test(at);
  const parts = Object.entries(value).slice(0, isAlike ? 2 : undefined);
  return [at, ...parts.flatMap(([key, it]) => pointersIn(it, `${at}/${key}`))];
}

/** What a parser says of a value: what it keeps of it, or its sentence. */
function said(read: (value: unknown) => unknown, value: unknown): unknown {
  try {
    return read(value);
  } catch (error) {
    return String(error);
  }
}

it('reads what zod reads, and says what zod says of everything else', () => {
  const cases: unknown[] = [schedule, undefined, ...VALUES];
  const changed = (...operations: Operation[]): void => {
    const copy = structuredClone(schedule);
    applyPatch(copy, operations);
    cases.push(copy);
  };
  for (const path of pointersIn(schedule).slice(1)) {
    for (const value of VALUES) changed({ op: 'replace', path, value });
    changed({ op: 'remove', path });
    changed({ op: 'add', path: `${path}s`, value: 1 }, { op: 'remove', path });
  }
  cases.push(JSON.parse('{"__proto__":{},"cluster":7}'));
  const all = cases.map((it) => said(readSchedule, it));
  for (const [i, it] of all.entries()) expect(it).toStrictEqual(said(withZod.readSchedule, cases[i]));
  const refused = all.filter((it) => typeof it === 'string');
  expect(refused.length).toBeGreaterThan(1_000);
  expect(cases.length - refused.length).toBeGreaterThan(10);
});
