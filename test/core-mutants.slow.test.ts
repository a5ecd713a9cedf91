import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { instrumentAll } from '../bench/mutate/house.js';
import { keysOf, readSurvivors } from '../bench/mutate/survivors.js';

describe('the survivors in docs/core-mutants.md', () => {
  const root = fileURLToPath(new URL('..', import.meta.url));
  const listed = readSurvivors(readFileSync(new URL('../docs/core-mutants.md', import.meta.url), 'utf8'));
  const keys = new Set(keysOf(instrumentAll(root).mutants).values());

  it('are mutants of core as it is now, each explained once', () => {
    expect(listed.filter(({ key }) => !keys.has(key)).map(({ key }) => key)).toEqual([]);
    expect(new Set(listed.map(({ key }) => key)).size).toBe(listed.length);
    for (const { why } of listed) expect(why.length).toBeGreaterThan(20);
  });

  it('are all that the text has in its lists', () => {
    const text = readFileSync(new URL('../docs/core-mutants.md', import.meta.url), 'utf8');
    expect(text.match(/^- /gm)?.length ?? 0).toBe(listed.length);
  });
});
