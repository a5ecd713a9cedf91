import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LibraryRef } from '../libraries/test-library.js';

/** What makes runs and judges them, with all that it imports; where libraries run, what makes theirs as well. */
const ENTRY = '../search/range.js';
const LIBRARY_ENTRY = './library-unit.js';
/** Packages whose results are part of a run. */
const PACKAGES = ['pure-rand', 'seedrandom'];
const IMPORT = /\b(?:from|import)\s*\(?\s*(['"])(\.[^'"]+)\1/g;

const known = new Map<string, string>();

/**
 * 16 hexadecimal digits of the modules that make a run and judge it, as they are on this machine. Machines that differ in
 * them may find different things in the same range. Of libraries that the campaign tests, a module of one's own counts as
 * it is, without what it imports.
 */
export function engineHash(libraries: readonly LibraryRef[] = []): string {
  const paths = libraries.flatMap(({ path }) => path ?? []);
  const key = [libraries.length > 0, ...paths].join('\0');
  let hash = known.get(key);
  if (hash === undefined) {
    const entries = libraries.length > 0 ? [ENTRY, LIBRARY_ENTRY] : [ENTRY];
    hash = hashOf(modulesFrom(entries.map((entry) => new URL(entry, import.meta.url))), paths);
    known.set(key, hash);
  }
  return hash;
}

function hashOf(modules: ReadonlyMap<string, string>, own: readonly string[]): string {
  const hash = createHash('sha256');
  const top = fileURLToPath(new URL('..', import.meta.url));
  for (const path of [...modules.keys()].sort()) {
    hash.update(`${relative(top, path)}\0${modules.get(path)}\0`);
  }
  const require = createRequire(import.meta.url);
  for (const name of PACKAGES) hash.update(`${name} ${require(`${name}/package.json`).version}\0`);
  for (const path of own) hash.update(`own ${basename(path)}\0${readFileSync(path, 'utf8')}\0`);
  return hash.digest('hex').slice(0, 16);
}

/** Texts of modules and of all modules that they import, by path. */
function modulesFrom(entries: readonly URL[]): Map<string, string> {
  const modules = new Map<string, string>();
  const left = [...entries];
  for (let url = left.pop(); url !== undefined; url = left.pop()) {
    const path = sourceOf(fileURLToPath(url));
    if (modules.has(path)) continue;
    const text = readFileSync(path, 'utf8');
    modules.set(path, text);
    for (const [, , name = ''] of text.matchAll(IMPORT)) left.push(new URL(name, url));
  }
  return modules;
}

/** From the source, modules are named as they are in the build. */
function sourceOf(path: string): string {
  return existsSync(path) ? path : path.replace(/\.js$/, '.ts');
}
