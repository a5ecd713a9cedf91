import { compileFunction } from 'node:vm';
import { afterEach, describe, expect, it } from 'vitest';
import { conditions, FIRES, fires, withConditions } from './conditions.js';

/** The function of this text, and the conditions on which it has left. */
function made(text: string): { readonly run: (...given: number[]) => Promise<unknown>; readonly noted: string[] } {
  const noted: string[] = [];
  conditions.noted = (id, isTrue) => noted.push(`${isTrue ? '' : 'not '}${id}`);
  const run = compileFunction(`${withConditions(text, 'lock.js')}\nreturn run;`, [FIRES])(fires);
  return { run: run as (...given: number[]) => Promise<unknown>, noted };
}

afterEach(() => Object.assign(conditions, { passed: new Set(), noted: null }));

const TEXT =
  'async function run(one, two) {\n  if (one > 0) return 1;\n  if (two > 0) {\n    throw new Error("two");\n  }\n  return 0;\n}';

describe('a condition on which a function is left', () => {
  it('is noted where it is true, and holds', async () => {
    const { run, noted } = made(TEXT);
    expect(await run(1, 0)).toBe(1);
    await expect(run(0, 1)).rejects.toThrow('two');
    expect(await run(0, 0)).toBe(0);
    const [one = '', ...rest] = noted;
    const two = rest[1] ?? '';
    expect(rest).toEqual([`not ${one}`, two, `not ${one}`, `not ${two}`]);
  });

  it('is passed over where it is named, and no other one', async () => {
    const { run, noted } = made(TEXT);
    await run(1, 0);
    conditions.passed = new Set(noted);
    expect(await run(1, 0)).toBe(0);
    await expect(run(1, 1)).rejects.toThrow('two');
  });
});

it.each([
  ['does not leave', 'async function run(a) { if (a) a = 0; return a; }'],
  ['ends a loop', 'async function run(a) { for (;;) { if (a) return a; } }'],
  ['ends a loop', 'async function run(a) { do { if (a) break; } while (true); }'],
  ['is of what does not wait', 'function run(a) { if (a) return null; return 1; }'],
])('leaves a condition as it is that %s: %s', (_, text) => {
  expect(withConditions(text, 'lock.js')).toBe(text);
});

it.each([
  'function run(a) { if (a) throw new Error(); }',
  'function run(a) { while (a) { const f = async () => { if (a) return 1; }; f(); } }',
  'const run = async (a) => {\n  for (const it of a) {\n    if (it)\n      continue;\n  }\n};',
])('instruments others, and changes no line: %s', (text) => {
  const told = withConditions(text, 'lock.js');
  expect(told).toContain(FIRES);
  expect(told.split('\n')).toHaveLength(text.split('\n').length);
});

it('instruments a condition within another', async () => {
  const { run, noted } = made(
    'async function run(a, b) {\n  if (await (async () => { if (a) return true; return b; })()) return 1;\n  return 0;\n}',
  );
  expect(await run(1, 0)).toBe(1);
  expect(await run(0, 0)).toBe(0);
  expect(noted.map((it) => it.startsWith('not '))).toEqual([false, false, true, true]);
});
