import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';

/** One import or re-export of a module. */
interface Import {
  /** A file, from the top of the repository, or the name of a package. */
  readonly target: string;
  readonly package: boolean;
  /** Whether nothing of it is left at run time. */
  readonly typeOnly: boolean;
}

/** Modules by path from the top of the repository, and what they import. */
export type Modules = ReadonlyMap<string, readonly Import[]>;

const GROUND = ['text', 'core', 'deviations', 'scenarios'];
const EVERY_ROOM = [
  ...GROUND,
  'sim',
  'properties',
  'search',
  'explore',
  'wire',
  'report',
  'real',
  'libraries',
  'audit',
  'advise',
  'campaign',
];

/** The rooms, and for each all rooms that it may import. */
export const ROOMS: Readonly<Record<string, readonly string[]>> = {
  text: [],
  core: [],
  deviations: ['core'],
  scenarios: ['text', 'core', 'deviations'],
  sim: ['core', 'deviations', 'scenarios'],
  properties: [...GROUND, 'sim'],
  search: [...GROUND, 'sim', 'properties'],
  explore: [...GROUND, 'sim'],
  report: [...GROUND, 'sim', 'properties', 'search'],
  wire: ['core', 'sim'],
  real: GROUND,
  libraries: [...GROUND, 'sim', 'wire', 'properties', 'search', 'report', 'real'],
  audit: [...GROUND, 'sim', 'wire', 'properties', 'report', 'libraries'],
  advise: [...GROUND, 'sim', 'properties', 'search'],
  campaign: [...GROUND, 'sim', 'properties', 'search', 'libraries'],
  cli: EVERY_ROOM,
  bench: [...EVERY_ROOM, 'cli'],
};

/** The lock, as its users import it. */
const LOCK = { package: 'lockstep-redlock', file: 'real/lock/index.ts' };

/** Folders whose modules may know nothing of the room `scenarios` but its types. */
const TYPES_ONLY = ['core/', 'sim/', 'properties/monitors/'];

const STATEMENT = /^[ \t]*(import|export)\b(?!\s*\()([^;'"`]*?\bfrom\s*)?\s*(['"])([^'"\n]+)\3/gm;
const CALL = /^(?![ \t]*(?:\*|\/\/|\/\*)).*?\bimport\(\s*(['"])([^'"\n]+)\1/gm;

/** What a module's text imports and re-exports. */
export function importsOf(path: string, text: string): Import[] {
  const found: Import[] = [];
  const add = (name: string, typeOnly: boolean): void => {
    const local = name.startsWith('.') || name === LOCK.package;
    const file = name === LOCK.package ? LOCK.file : posix.join(posix.dirname(path), name).replace(/\.js$/, '.ts');
    found.push({ target: local ? file : name, package: !local, typeOnly });
  };
  for (const [, , middle = '', , name = ''] of text.matchAll(STATEMENT))
    add(name, /^\s+type\b(?!\s+from\b)/.test(middle));
  for (const [, , name = ''] of text.matchAll(CALL)) add(name, false);
  return found;
}

export function isTest(path: string): boolean {
  return /\.test\.ts$|(^|\/)testing\//.test(path);
}

function roomOf(path: string): string {
  return path.slice(0, path.indexOf('/'));
}

/** Imports that go against the picture of the house, each as a sentence. */
export function forbiddenImports(modules: Modules): string[] {
  const wrong: string[] = [];
  for (const [path, imports] of modules) {
    const room = roomOf(path);
    const allowed = ROOMS[room];
    if (allowed === undefined) wrong.push(`${path} is in no room of the house`);
    for (const { target, package: isPackage, typeOnly } of imports) {
      const other = roomOf(target);
      if (isPackage) {
        if (room === 'text' || room === 'core') wrong.push(`${path} imports ${target}, but ${room} depends on nothing`);
      } else if (isTest(target)) {
        wrong.push(`${path} imports ${target}, which is for tests`);
      } else if (other !== room && allowed?.includes(other) === false) {
        wrong.push(`${path} imports ${target}, but ${room} may not import ${other}`);
      } else if (other === 'scenarios' && !typeOnly && TYPES_ONLY.some((folder) => path.startsWith(folder))) {
        wrong.push(`${path} imports more than types of ${target}`);
      }
    }
  }
  return wrong;
}

/** All modules that one reaches by its imports, types included, with itself. */
export function closureOf(modules: Modules, path: string): string[] {
  const reached = new Set([path]);
  for (const each of reached)
    for (const { target } of modules.get(each) ?? []) if (modules.has(target)) reached.add(target);
  return [...reached];
}

/** One cycle for each module that closes one, as the path around it; type-only imports count. */
export function cycles(modules: Modules): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const trail: string[] = [];
  const visit = (path: string): void => {
    const at = trail.indexOf(path);
    if (at >= 0) found.push([...trail.slice(at), path].join(' → '));
    if (at >= 0 || done.has(path)) return;
    trail.push(path);
    for (const { target } of modules.get(path) ?? []) if (modules.has(target)) visit(target);
    trail.pop();
    done.add(path);
  };
  for (const path of modules.keys()) visit(path);
  return found;
}

/** All modules of the repository at `top` that are not tests or for tests. */
export function readModules(top: URL): Modules {
  const modules = new Map<string, Import[]>();
  const walk = (folder: string): void => {
    for (const entry of readdirSync(new URL(folder, top), { withFileTypes: true })) {
      const path = folder + entry.name;
      if (entry.isDirectory()) {
        if (!/^(\.|node_modules$|dist$|docs$|test$|testing$|examples$)/.test(entry.name)) walk(`${path}/`);
      } else if (/\.[cm]?tsx?$/.test(path) && !isTest(path) && path.includes('/')) {
        modules.set(path, importsOf(path, readFileSync(new URL(path, top), 'utf8')));
      }
    }
  };
  walk('');
  for (const [path, imports] of modules)
    modules.set(
      path,
      imports.map((it) => asFound(it, modules)),
    );
  return modules;
}

/** `./a.js` may stand for `a.tsx`, too. */
function asFound(it: Import, modules: Modules): Import {
  const other = it.target.replace(/\.ts$/, '.tsx');
  return !modules.has(it.target) && modules.has(other) ? { ...it, target: other } : it;
}
