import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { FIRES, fires } from './conditions.js';
import { LATCH, noteLatch } from './latches.js';
import { NATIVES } from './natives.js';
import type { SourceFile } from './shapes.js';
import { isUnknown } from './unknown.js';

/** What a module exports. */
export type Exports = Readonly<Record<string, unknown>>;

/** Evaluates a file in the process that is current. */
export type Evaluate = (...given: readonly unknown[]) => unknown;

/** A file of the lock's author, ready to be evaluated in each simulated process. */
export interface OwnFile {
  readonly path: string;
  readonly source: SourceFile;
  /** Written with `import` and `export`. */
  readonly isModule: boolean;
  /** It awaits something as it is loaded. */
  readonly awaits: boolean;
  readonly evaluate: Evaluate;
  /** What it is given as a script. */
  readonly given: readonly string[];
  /** What its requests lead to. */
  readonly targets: ReadonlyMap<string, Target>;
}

/** A file of the author, or something that all simulated processes share. */
export type Target = { readonly own: string } | { readonly namespace: Exports; readonly exports: unknown };

/** The name under which a file's own functions are to be found, exported or not. */
export const INSIDE = '__lockstepInside';

/** It exports something. */
export const EXPORTS: RegExp = /\bexports?\b/;

const SILENT: Console = Object.fromEntries(
  Object.keys(console).map((name) => [name, () => undefined]),
) as unknown as Console;

/** What is thrown where a file ends its process. */
export class ProcessExit extends Error {
  override readonly name: string = 'ProcessExit';
}

/** Arguments of a script: a name, a number of seconds, and a command. */
export const ARGUMENTS: readonly string[] = ['a', '30', 'a'];

/** The process, as a file sees it: a simulated one ends by itself. */
const PROCESS: NodeJS.Process = new Proxy(process, {
  get(target, name) {
    if (name === 'exit')
      return () => {
        throw new ProcessExit('the file ends its process');
      };
    if (name === 'argv') return process.argv.slice(0, 2);
    // To end a program that it has started ends nothing here.
    if (name === 'kill') return () => true;
    // Listeners of simulated processes would outlive them.
    if (name === 'on' || name === 'once') return () => PROCESS;
    return Reflect.get(target, name);
  },
});

/** The same for a script, which has arguments. */
function scriptWith(given: readonly string[]): NodeJS.Process {
  return new Proxy(PROCESS, {
    get: (target, name) => (name === 'argv' ? [...target.argv, ...given] : Reflect.get(target, name)),
  });
}

/** What is handed to the function that a file is compiled to, by name. */
export const PARAMETERS: string[] = [
  'exports',
  'require',
  'module',
  '__filename',
  '__dirname',
  'jitiImport',
  'console',
  'process',
  LATCH,
  FIRES,
  ...Object.keys(NATIVES),
];

/** What one process has of each file. */
export class Evaluation {
  private readonly files: ReadonlyMap<string, OwnFile>;
  private readonly modules = new Map<string, { exports: Record<string, unknown>; done: unknown }>();
  private readonly allAwait: boolean;

  constructor(files: ReadonlyMap<string, OwnFile>) {
    this.files = files;
    this.allAwait = [...files.values()].some(({ awaits }) => awaits);
  }

  async of(path: string): Promise<Exports> {
    const module = this.begin(path);
    await module.done;
    return module.exports;
  }

  private begin(path: string): { exports: Record<string, unknown>; done: unknown } {
    const known = this.modules.get(path);
    if (known !== undefined) return known;
    const file = this.files.get(path);
    const module: { exports: Record<string, unknown>; done: unknown } = { exports: {}, done: null };
    this.modules.set(path, module);
    if (file === undefined) return module;
    const require = (request: string): unknown => this.required(file, request);
    const load = (request: string): unknown => this.imported(file, request);
    const outer = module.exports;
    module.done = file.evaluate(
      outer,
      require,
      module,
      path,
      dirname(path),
      load,
      SILENT,
      EXPORTS.test(file.source.text) ? PROCESS : scriptWith(file.given),
      noteLatch,
      fires,
      ...Object.values(NATIVES),
    );
    const { [INSIDE]: inside } = outer;
    // An application that is exported has nothing but what was handed to it.
    if (isUnknown(module.exports)) module.exports = outer;
    // A file may have put something else in the place of its exports.
    if (module.exports !== outer && inside !== undefined && isObject(module.exports)) module.exports[INSIDE] ??= inside;
    return module;
  }

  private required(file: OwnFile, request: string): unknown {
    const target = file.targets.get(request);
    if (target === undefined) return createRequire(file.path)(request);
    if ('own' in target)
      return file.isModule ? asNamespace(this.begin(target.own).exports) : this.begin(target.own).exports;
    return file.isModule ? target.namespace : target.exports;
  }

  private imported(file: OwnFile, request: string): unknown {
    const target = file.targets.get(request);
    if (target === undefined || !('own' in target)) return target?.namespace;
    const module = this.begin(target.own);
    return this.allAwait
      ? Promise.resolve(module.done).then(() => asNamespace(module.exports))
      : asNamespace(module.exports);
  }
}

/** Exports as `import` gives them: those of a CommonJS module are its default, unless it names one. */
function asNamespace(exports: Record<string, unknown>): Record<string, unknown> {
  return exports.__esModule === true && 'default' in exports ? exports : { ...exports, default: exports };
}

/** The functions of a file that it does not export, by name. */
export function insideOf(exports: Exports): Exports {
  const inside = exports[INSIDE];
  return isObject(inside) ? (inside as Exports) : {};
}

const KEPT = Symbol('kept');

/** The same exports, where these functions are found inside, too: what the file has handed over as it was loaded. */
export function withKept(exports: Exports, kept: Exports): Exports {
  if (Object.keys(kept).length > 0)
    Object.assign(exports, { [INSIDE]: { ...insideOf(exports), ...kept }, [KEPT]: kept });
  return exports;
}

/** What a file has handed over as it was loaded, by name; all of it is found inside, too. */
export function keptOf(exports: Exports): Exports {
  return (Reflect.get(exports, KEPT) as Exports | undefined) ?? {};
}

/** What a file exports, without what is added here. */
export function exportsOf(exports: Exports): Map<string, unknown> {
  const shown = new Map<string, unknown>();
  if (typeof exports === 'function') shown.set('default', exports);
  for (const name of Object.keys(exports)) if (name !== INSIDE && name !== '__esModule') shown.set(name, exports[name]);
  return shown;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}
