import { readdirSync } from 'node:fs';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { describe, expect, it } from 'vitest';
import { lockstep } from '../cli/testing/in-process.js';
import { folderOf, locksOf, type WildLock } from './wild-locks.js';

/** The sets, with how many locks each has. */
const SETS = [
  ['first', 40],
  ['second', 40],
  ['third', 40],
  ['fourth', 40],
  ['fifth', 40],
  ['sixth', 40],
  ['seventh', 40],
  ['ninth', 26],
  ['eleventh', 28],
  ['twelfth', 28],
  ['fourteenth', 24],
  ['sixteenth', 28],
  ['eighteenth', 28],
  ['nineteenth', 20],
  ['twentieth', 30],
  ['twenty-first', 30],
  ['twenty-second', 30],
  ['twenty-third', 30],
  ['twenty-fourth', 15],
  ['twenty-fifth', 15],
  ['twenty-sixth', 16],
  ['twenty-seventh', 16],
  ['twenty-eighth', 32],
  ['twenty-ninth', 16],
  ['thirtieth', 16],
  ['thirty-first', 16],
  ['thirty-second', 20],
  ['thirty-third', 20],
  ['thirty-fourth', 20],
  ['thirty-fifth', 20],
  ['thirty-sixth', 20],
  ['thirty-seventh', 20],
  ['thirty-eighth', 20],
  ['thirty-ninth', 20],
  ['fortieth', 20],
  ['forty-first', 20],
  ['forty-second', 20],
  ['forty-third', 20],
  ['forty-fourth', 20],
  ['forty-fifth', 20],
  ['forty-sixth', 20],
  ['forty-seventh', 20],
  ['forty-eighth', 20],
  ['forty-ninth', 20],
  ['fiftieth', 20],
  ['fifty-first', 20],
  ['fifty-second', 20],
  ['fifty-third', 20],
  ['fifty-fourth', 20],
  ['fifty-fifth', 20],
  ['fifty-sixth', 20],
  ['fifty-seventh', 20],
  ['fifty-eighth', 20],
  ['fifty-ninth', 20],
  ['sixtieth', 20],
  ['sixty-first', 20],
  ['sixty-second', 20],
  ['sixty-third', 20],
  ['sixty-fourth', 20],
  ['sixty-fifth', 20],
  ['sixty-sixth', 20],
  ['sixty-seventh', 20],
  ['sixty-eighth', 20],
  ['sixty-ninth', 20],
  ['seventieth', 20],
  ['seventy-first', 20],
  ['seventy-second', 20],
  ['seventy-third', 20],
  ['seventy-fourth', 20],
  ['seventy-fifth', 20],
  ['seventy-sixth', 20],
  ['seventy-seventh', 20],
  ['seventy-eighth', 20],
  ['seventy-ninth', 20],
  ['eightieth', 20],
  ['eighty-first', 20],
  ['eighty-second', 20],
  ['eighty-third', 20],
  ['eighty-fourth', 20],
  ['eighty-fifth', 20],
  ['eighty-sixth', 20],
  ['eighty-seventh', 20],
  ['eighty-eighth', 20],
  ['eighty-ninth', 20],
] as const;

/** What a set has beside its locks: their verdicts, and what plain use shows of them. */
const LISTS = ['verdicts.json', 'plain-use.json'];

/** One lock of each set in so many sets is audited. */
const STRIDE = 3;

/** More arguments of each audit, as `--seed meadow --runs 14`. */
const ARGUMENTS = process.env.WILD_ARGUMENTS?.split(' ') ?? [];

/** One of those whose audit comes to their verdict, another one in each set, or none; `WILD=all` takes all. */
function triedOf(set: string, locks: readonly WildLock[]): readonly WildLock[] {
  if (process.env.WILD === 'all') return locks;
  const at = SETS.findIndex(([name]) => name === set);
  const known = locks.filter(({ open }) => open === undefined);
  return at % STRIDE === 0 ? known.slice(at % known.length).slice(0, 1) : [];
}

/** What a program may have to spend on one verdict. */
const MOST_TOKENS = 1_500;

/** In this process: an engine that is warm audits in half the time. */
async function audit(path: string): Promise<{ readonly code: number; readonly text: string }> {
  const { code, stdout, stderr } = await lockstep(['audit', path, '--json', ...ARGUMENTS]);
  return { code, text: stdout + stderr };
}

describe.each(SETS)('the %s set of locks as people write them', (set, count) => {
  const locks = locksOf(set);

  it('are all in the table', () => {
    const files = readdirSync(folderOf(set)).filter((name) => !LISTS.includes(name));
    expect(locks.map(({ file }) => file).sort()).toEqual(files.sort());
    expect(locks).toHaveLength(count);
  });

  it.each(triedOf(set, locks))('audits $file, which is $verdict', async ({ file, verdict, judged, words = [] }) => {
    const { code, text } = await audit(`${folderOf(set)}${file}`);
    expect(text).not.toBe('');
    expect(code, text).toBe(verdict === 'right' ? 0 : 1);
    expect(countTokens(text)).toBeLessThanOrEqual(MOST_TOKENS);
    if (judged !== undefined) expect(JSON.parse(text)).toHaveProperty('promise.kind', judged);
    for (const word of words) expect(text).toMatch(new RegExp(word, 'i'));
  });
});
