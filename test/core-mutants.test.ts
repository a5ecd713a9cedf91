import { describe, expect, it } from 'vitest';
import { instrument, SWITCH } from '../bench/mutate/instrument.js';
import { keysOf, readSurvivors } from '../bench/mutate/survivors.js';

/** What each mutant of a module of plain functions makes of it, by what it is. */
function mutated(source: string, call: string): [string, unknown][] {
  const { code, mutants } = instrument('x.ts', source, 1);
  const run = new Function(
    'id',
    `globalThis.${SWITCH} = id; ${code}; try { return ${call}; } finally { globalThis.${SWITCH} = 0; }`,
  );
  return [{ id: 0, operator: 'none' }, ...mutants].map(({ id, operator }) => [operator, run(id)]);
}

describe('planting errors', () => {
  it('wakes one at a time, and none by default', () => {
    expect(mutated('function f(a) { return a < 3 && a !== 1; }', '[0, 1, 2, 3].map(f)')).toEqual([
      ['none', [true, false, true, false]],
      ['&& → ||', [true, true, true, true]],
      ['< → <=', [true, false, true, true]],
      ['< → >=', [false, false, false, true]],
      ['one more', [true, false, true, true]],
      ['!== → ===', [false, true, false, false]],
      ['one more', [true, true, false, false]],
    ]);
  });

  it('leaves out statements without taking the else of another if', () => {
    const source = 'function f(a) { let b = 0; if (a) b += 1; else b += 2; return [b, !a]; }';
    expect(mutated(source, 'f(true)')).toEqual([
      ['none', [1, false]],
      ['one more', [2, false]],
      ['always', [1, false]],
      ['never', [2, false]],
      ['statement removed', [0, false]],
      ['one more', [2, false]],
      ['statement removed', [1, false]],
      ['one more', [1, false]],
      ['! removed', [1, true]],
    ]);
  });

  it('sees the functions of a table, by the names of its entries', () => {
    const source = 'const T = { n: 1, half: (a) => a / 2, in: { no() { return 1; } } };';
    expect(mutated(source, '[T.n, T.half(4), T.in.no()]')).toEqual([
      ['none', [1, 2, 1]],
      ['/ → *', [1, 8, 1]],
      ['one more', [1, 4 / 3, 1]],
      ['one more', [1, 2, 2]],
    ]);
    expect(instrument('x.ts', source, 1).mutants.map(({ within }) => within)).toEqual(['half', 'half', 'no']);
  });

  it('keeps to functions, and away from types, names and imports', () => {
    const source =
      "import x from 'y'; const a = 1 + 2; type T = 'u'; function f(b: 'v'): 'w' { return { k: b } as never; }";
    expect(instrument('x.ts', source, 1).mutants).toEqual([]);
  });
});

it('names each mutant by what becomes of what, and reads such names with their explanations', () => {
  const { mutants } = instrument('core/x.ts', 'function f(a) { a(1); a(1); }', 1);
  const keys = [...keysOf(mutants).values()];
  expect(keys).toEqual([
    'core/x.ts f: a(1); → (removed)',
    'core/x.ts f: 1 → 2',
    'core/x.ts f: a(1); → (removed) (2)',
    'core/x.ts f: 1 → 2 (2)',
  ]);
  const text = `# Title\n\n- \`${keys[1]}\`\n  equivalent: nobody looks at it,\n  whatever it is.\n- \`${keys[2]}\`\n  alive: no test yet.\n`;
  expect(readSurvivors(text)).toEqual([
    { key: keys[1], equivalent: true, why: 'nobody looks at it, whatever it is.' },
    { key: keys[2], equivalent: false, why: 'no test yet.' },
  ]);
});
