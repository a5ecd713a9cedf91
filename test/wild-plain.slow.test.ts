import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { layOut } from '../scenarios/json-layout.js';
import { folderOf, locksOf, setsOfLocks } from './wild-locks.js';

/*
 * What plain use shows of each lock of `wild/`, without a search. A change of the audit that loses a finding, or condemns another lock,
 * is seen here. `WILD=all` takes all sets, and with `vitest -u` writes what they show:
 * WILD=all npx vitest -u --run --project slow test/wild-plain.slow.test.ts
 */

const PLAIN_USE = fileURLToPath(new URL('plain-use.mjs', import.meta.url));

/** One set in so many. */
const STRIDE = 12;

const sets = setsOfLocks();
const tried = process.env.WILD === 'all' ? sets : sets.filter((_, at) => at % STRIDE === 0);

/** What a file shows: the names of its findings, or why it was not audited. */
type Shown = Readonly<Record<string, readonly string[] | string>>;

/** What these files of a set show, in a process of their own. */
async function shown(folder: string, files: readonly string[]): Promise<Shown> {
  const { stdout } = await promisify(execFile)(process.execPath, [PLAIN_USE, folder, ...files], { cwd: folder });
  return JSON.parse(stdout) as Shown;
}

it.each(tried)('shows the same of the %s set of locks, and condemns no right one', async (set) => {
  const locks = locksOf(set);
  const files = locks.map(({ file }) => file).sort();
  const [folder, half] = [folderOf(set), Math.ceil(files.length / 2)];
  const found = await Promise.all([shown(folder, files.slice(0, half)), shown(folder, files.slice(half))]);
  const all: Shown = Object.assign({}, ...found);
  const right = locks.filter(({ verdict, open }) => verdict === 'right' && open === undefined);
  expect(right.filter(({ file }) => Array.isArray(all[file]) && all[file].length > 0)).toEqual([]);
  await expect(layOut(all)).toMatchFileSnapshot(`wild/${set}/plain-use.json`);
});
