import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { findScenario } from '../../scenarios/catalogue.js';
import { layOut } from '../../scenarios/json-layout.js';
import type { Ran } from './in-process.js';

/** Names that somebody may have written who wishes no good: to a terminal, a shell, a path or a page. */
export const HOSTILE: readonly string[] = [
  'a\u001b[31mEVIL\u001b]0;title\u0007',
  'a\r\u001b[2Kb',
  'first\nlockstep: second',
  '\u202egnp.exe\u2066x',
  'c1\u0085\u009b31m\u007f',
  '../../../outside',
  '/tmp/lockstep-outside.html',
  '..',
  '$(touch outside); `id` & \'"',
  '<script>alert(1)</script>',
  '__proto__',
  '-x --with',
  '::error::x%0A',
  'x'.repeat(12_000),
  '\ud800',
  '\ufeff\u200b',
  ' ',
];

/** C0 but for the end of a line, C1, marks of direction and the like, ends of lines that are none, halves of pairs. */
const UNPRINTABLE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/** The longest sentence that people are shown, characters. */
const LONGEST = 1_100;

/** What of a text a terminal would obey or nobody would see, with what is around it; `null` if nothing. */
export function unprintableIn(text: string): string | null {
  const at = text.search(UNPRINTABLE);
  return at < 0 ? null : JSON.stringify(text.slice(Math.max(0, at - 40), at + 20));
}

/** One sentence in one line that can be read, and nothing else. */
export function expectSentence(text: string): void {
  expect(text).toMatch(/^lockstep: .+\n$/);
  expect(unprintableIn(text)).toBeNull();
  expect(text.length).toBeLessThan(LONGEST);
}

/** Whatever came of it, it was told in what can be seen, and was no error of the program. */
export function expectTold({ code, stdout, stderr }: Ran): void {
  expect(stderr).not.toContain('internal error');
  expect([0, 1, 2, 3, 64]).toContain(code);
  expect(unprintableIn(stdout)).toBeNull();
  if (code === 64 && stdout === '') expectSentence(stderr);
  expect(unprintableIn(stderr)).toBeNull();
}

/** S03 with one name in every place where a person can write one. */
export function scenarioOf(name: string): string {
  const { schedule, ...scenario } = findScenario('S03');
  const clients = schedule.clients.map((client) => ({
    ...client,
    locks: client.locks.map((lock) => ({ ...lock, resources: [name] })),
  }));
  const flips = [{ title: name, with: 'persistence=always', expect: { verdict: 'violated' } }];
  const expectations = {
    verdict: 'violated',
    violations: [{ property: 'mutual-exclusion', resource: name }],
    hash: name,
  };
  return layOut({
    ...scenario,
    id: name,
    title: name,
    story: name,
    source: name,
    schedule: { ...schedule, clients },
    expect: expectations,
    flips,
  });
}

/** Every file below a folder. */
export function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((it) => it.isFile())
    .map((it) => join(it.parentPath, it.name).slice(folder.length + 1));
}
