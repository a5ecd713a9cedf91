import { compileFunction } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { asking, LATCH, noteLatch, withLatches, withoutLatches } from './latches.js';

/** A function of a file that says whether a lock is held. */
function made(text: string): () => unknown {
  const code = withLatches(text, 'lock.js');
  return compileFunction(`${code}\nreturn holds;`, [LATCH])(noteLatch) as () => unknown;
}

const ON_CONDITION =
  'let [late, lost] = [true, false]; function holds() { if (late) lost = true; late = false; return !lost; }';

describe('a question', () => {
  it.each([
    ['on a condition', ON_CONDITION],
    [
      'in a block',
      'let [late, lost] = [true, false];\nfunction holds() {\n  if (late) {\n    lost = true\n  }\n  late = false\n  return !lost\n}',
    ],
    [
      'or else as it was',
      'let [late, lost] = [true, false]; function holds() { lost ||= late; late = false; return !lost; }',
    ],
    [
      'or itself',
      'let [late, lost] = [true, false]; function holds() { lost = lost || late; late = false; return !lost; }',
    ],
  ])('takes back a flag that it has set: %s', (_, text) => {
    const holds = made(text);
    expect(asking(holds)).toBe(false);
    expect(asking(holds)).toBe(true);
  });

  it('leaves the flag set where the program itself asks', () => {
    const holds = made(ON_CONDITION);
    expect(holds()).toBe(false);
    expect(holds()).toBe(false);
  });

  it('takes back a field of an object', () => {
    const code = withLatches(
      'class Lock { #lost = false; late = true; holds() { if (this.late) this.#lost = true; return !this.#lost; } }',
      'lock.js',
    );
    const Lock = compileFunction(`${code}\nreturn Lock;`, [LATCH])(noteLatch) as new () => {
      late: boolean;
      holds(): boolean;
    };
    const lock = new Lock();
    expect(asking(() => lock.holds())).toBe(false);
    lock.late = false;
    expect(lock.holds()).toBe(true);
  });
});

it('leaves what is no flag as it is', () => {
  for (const text of ['lost = true;', 'if (late) held[key] = null;', 'if (late) until = now();', 'count += 1;'])
    expect(withLatches(text, 'lock.js')).toBe(text);
});

it('leaves out of a text what tells of flags, and nothing else', () => {
  expect(withoutLatches(withLatches('if (late) lost = true;\nother = 1;', 'lock.js'))).toMatch(
    /^if \(late\)\s+;\nother = 1;$/,
  );
});
