import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What makes runs and judges them, with all that it imports. */
const ENTRY = '../properties/search/range.js';
/** Packages whose results are part of a run. */
const PACKAGES = ['pure-rand', 'seedrandom'];
const IMPORT = /\b(?:from|import)\s*\(?\s*(['"])(\.[^'"]+)\1/g;

let known: string | undefined;

/**
 * 16 hexadecimal digits of the modules that make a run and judge it, as they are on this machine. Machines that differ in
 * them may find different things in the same range.
 */
export function engineHash(): string {
  known ??= hashOf(modulesFrom(new URL(ENTRY, import.meta.url)));
  return known;
}

function hashOf(modules: ReadonlyMap<string, string>): string {
  const hash = createHash('sha256');
  const top = fileURLToPath(new URL('..', import.meta.url));
  for (const path of [...modules.keys()].sort()) {
    hash.update(`${relative(top, path)}\0${modules.get(path)}\0`);
  }
  const require = createRequire(import.meta.url);
  for (const name of PACKAGES) hash.update(`${name} ${require(`${name}/package.json`).version}\0`);
  return hash.digest('hex').slice(0, 16);
}

/** Texts of a module and of all modules that it imports, by path. */
function modulesFrom(entry: URL): Map<string, string> {
  const modules = new Map<string, string>();
  const left = [entry];
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
