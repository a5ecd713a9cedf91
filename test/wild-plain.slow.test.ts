import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { layOut } from '../scenarios/json-layout.js';

/*
 * What plain use shows of each lock of `wild/`, without a search. A change of the audit that loses a finding, or condemns another lock,
 * is seen here. `WILD=all` takes all sets, and with `vitest -u` writes what they show:
 * WILD=all npx vitest -u --run --project slow test/wild-plain.slow.test.ts
 */

const FOLDER = new URL('wild/', import.meta.url);
const PLAIN_USE = fileURLToPath(new URL('plain-use.mjs', import.meta.url));

/** One set in so many. */
const STRIDE = 9;

interface Listed {
  readonly file: string;
  readonly verdict: 'right' | 'wrong';
}

function locksOf(set: string): readonly Listed[] {
  const text = readFileSync(new URL(`${set}/verdicts.json`, FOLDER), 'utf8');
  const { locks } = JSON.parse(text) as { locks?: readonly Listed[] };
  return Array.isArray(locks) ? locks : [];
}

const SETS = readdirSync(FOLDER, { withFileTypes: true })
  .filter((it) => it.isDirectory() && it.name !== 'node_modules')
  .map(({ name }) => name)
  .filter((set) => readdirSync(new URL(set, FOLDER)).includes('verdicts.json') && locksOf(set).length > 0);

const tried = process.env.WILD === 'all' ? SETS : SETS.filter((_, at) => at % STRIDE === 0);

/** What these files of a set show, in a process of their own. */
async function shown(folder: string, files: readonly string[]): Promise<object> {
  const { stdout } = await promisify(execFile)(process.execPath, [PLAIN_USE, folder, ...files], { cwd: folder });
  return JSON.parse(stdout) as object;
}

it.each(tried)('shows the same of the %s set of locks', async (set) => {
  const files = locksOf(set)
    .map(({ file }) => file)
    .sort();
  const folder = fileURLToPath(new URL(set, FOLDER));
  const half = Math.ceil(files.length / 2);
  const found = await Promise.all([shown(folder, files.slice(0, half)), shown(folder, files.slice(half))]);
  await expect(layOut(Object.assign({}, ...found))).toMatchFileSnapshot(`wild/${set}/plain-use.json`);
});
