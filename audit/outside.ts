import childProcess from 'node:child_process';
import { EventEmitter } from 'node:events';
import fs from 'node:fs';
import { Readable, Writable } from 'node:stream';
import util, { promisify } from 'node:util';
import { current } from '../libraries/runtime/owner.js';
import { periodFor } from './forms.js';
import { calls, unknownValue } from './unknown.js';

/*
 * What a file does to the machine that it is audited on: it writes no files there, and starts no programs. To do so is work, as to call
 * what it was handed.
 */

type Method = (...given: readonly unknown[]) => unknown;
type Module = Readonly<Record<string, unknown>>;

/** Changes of files that are work, and those that only make room for it. */
const WRITES: readonly string[] = ['writeFile', 'appendFile', 'rename', 'copyFile', 'cp', 'rm', 'unlink', 'truncate'];
const MAKES_ROOM: readonly string[] = ['mkdir', 'rmdir', 'chmod', 'chown', 'utimes', 'symlink', 'link'];
/** What reads files does so at once: in a simulated process no time goes by for it. */
const READS: readonly string[] = ['access', 'stat', 'lstat', 'readFile', 'readdir', 'realpath'];

/** What stands for a module of Node in a file that is audited; the module itself where that changes nothing outside. */
export function withoutEffects(request: string, module: Module): Module {
  const name = request.replace(/^node:/, '');
  if (name === 'fs') return { ...module, ...files, promises, default: { ...fs, ...files, promises } };
  if (name === 'fs/promises') return { ...module, ...promises, default: promises };
  if (name === 'util') return { ...module, parseArgs: argumentsOf, default: { ...util, parseArgs: argumentsOf } };
  if (name === 'child_process') return { ...module, ...programs, default: { ...childProcess, ...programs } };
  return module;
}

interface ArgumentOptions {
  readonly options?: Readonly<Record<string, { type: string; multiple?: boolean; default?: unknown }>>;
}

/** The arguments of a script, as it describes them: a text for each that it takes one for. */
function argumentsOf({ options = {} }: ArgumentOptions = {}): {
  values: Record<string, unknown>;
  positionals: string[];
} {
  const values = Object.entries(options).map(([name, { type, multiple, default: usual }]) => {
    const given = usual ?? (type === 'boolean' ? undefined : (periodFor(name, 'a') ?? 'a'));
    return [name, multiple && given !== undefined && !Array.isArray(given) ? [given] : given];
  });
  return { values: Object.fromEntries(values), positionals: ['a'] };
}

/** What newer versions of Node have, for files that were written for these. */
export function provideNewer(): void {
  // Decorators are compiled with the types of what they decorate, for whom `reflect-metadata` may be there; without it they are spoiled.
  if (!('metadata' in Reflect))
    Object.defineProperty(Reflect, 'metadata', { value: () => () => undefined, configurable: true, writable: true });
  if ('withResolvers' in Promise) return;
  const withResolvers = <T>(): object => {
    let settled: object = {};
    const promise = new Promise<T>((resolve, reject) => {
      settled = { resolve, reject };
    });
    return { promise, ...settled };
  };
  Object.defineProperty(Promise, 'withResolvers', { value: withResolvers, configurable: true, writable: true });
}

/** Notes what is done at once. */
function note(name: string, given: readonly unknown[]): unknown {
  return (unknownValue({}, 'a', name) as Method)(...given);
}

/** What is done, and takes the time that work takes. */
function work(name: string, given: readonly unknown[]): Promise<unknown> {
  return Promise.resolve(note(name, given));
}

/** A function in the style of Node, which tells a callback what a promise gives. */
function telling(does: (given: readonly unknown[]) => Promise<unknown>): Method {
  return (...given) => {
    const told = given.at(-1) as Method;
    does(given.slice(0, -1)).then(
      (result) => told(null, result),
      (error) => told(error),
    );
  };
}

/** A file that is open for writing. */
function file(): unknown {
  const nothing = async (): Promise<void> => {};
  return unknownValue({ close: nothing, sync: nothing, datasync: nothing, chmod: nothing }, 'a', 'file');
}

/** Whether a file is opened for reading alone. */
function isRead(flags: unknown): boolean {
  return (
    flags === undefined || typeof flags === 'function' || flags === fs.constants.O_RDONLY || /^rs?$/.test(String(flags))
  );
}

/** Whether a simulated process reads a file that is not there: one that its work is about. */
function isMissing(path: unknown): boolean {
  const isPath = typeof path === 'string' || path instanceof URL;
  return current.owner !== null && isPath && !fs.existsSync(path);
}

/** What is read of a file or a folder that is not there. */
function contentOf(name: string, [path, how]: readonly unknown[]): unknown {
  if (name === 'readdir') return [...calls.files.names];
  const isText = typeof how === 'string' || typeof Object(how).encoding === 'string';
  const text = calls.files.at(String(path));
  return isText ? text : Buffer.from(text);
}

/** What stands for the functions of a name, in the styles of Node. */
interface Stand {
  readonly promised: (given: readonly unknown[]) => Promise<unknown>;
  readonly atOnce: (given: readonly unknown[]) => unknown;
}

function standFor(name: string): Stand {
  if (WRITES.includes(name))
    return {
      promised: (given) => work(name, given).then(() => undefined),
      atOnce: (given) => void note(name, given),
    };
  if (MAKES_ROOM.includes(name)) return { promised: async () => undefined, atOnce: () => undefined };
  const atOnce = (given: readonly unknown[]): unknown => {
    if (name === 'mkdtemp') return `${given[0]}000000`;
    if ((name === 'readFile' || name === 'readdir') && isMissing(given[0])) return contentOf(name, given);
    return (Reflect.get(fs, `${name}Sync`) as Method)(...given);
  };
  return { promised: async (given) => atOnce(given), atOnce };
}

const STANDS = [...WRITES, ...MAKES_ROOM, ...READS, 'mkdtemp'].map((name) => ({ name, ...standFor(name) }));

const promises: Module = {
  ...fs.promises,
  ...Object.fromEntries(STANDS.map(({ name, promised }) => [name, (...given: unknown[]) => promised(given)])),
  open: async (path: string, flags?: string) =>
    isRead(flags) ? fs.promises.open(path, flags) : work('open', [path]).then(file),
};

/** @throws What names a call that would open a file for writing by its number: nothing stands for that. */
function opening(name: 'open' | 'openSync'): Method {
  return (...given) => {
    if (!isRead(given[1]) && current.owner !== null)
      throw current.owner.refuses(`calls fs.${name} to write, which would change a real file`);
    return (fs[name] as Method)(...given);
  };
}

const files: Module = {
  ...Object.fromEntries(
    STANDS.flatMap(({ name, promised, atOnce }) => [
      [name, telling(promised)],
      [`${name}Sync`, (...given: unknown[]) => atOnce(given)],
    ]),
  ),
  open: opening('open'),
  openSync: opening('openSync'),
  createReadStream: (...given: Parameters<typeof fs.createReadStream>) =>
    isMissing(given[0])
      ? Readable.from([Buffer.from(calls.files.at(String(given[0])))])
      : fs.createReadStream(...given),
  createWriteStream: (path: string): Writable =>
    new Writable({ write: (_, __, done) => void work('write', [path]).then(() => done(), done) }),
};

/** What a program writes: nothing. */
function output(): EventEmitter {
  const nothing = (): undefined => undefined;
  return Object.assign(new EventEmitter(), { setEncoding: nothing, resume: nothing, pipe: nothing });
}

/** A program that has run when its work is done, and has succeeded if that has. */
function started(...given: readonly unknown[]): EventEmitter {
  const program = Object.assign(new EventEmitter(), {
    pid: 1_000,
    stdin: new Writable({ write: (_, __, done) => done() }),
    stdout: output(),
    stderr: output(),
    kill: () => true,
    ref: () => undefined,
    unref: () => undefined,
  });
  const ends = (code: number): void => {
    for (const event of ['exit', 'close']) program.emit(event, code, null);
  };
  work('spawn', given).then(
    () => ends(0),
    () => ends(1),
  );
  return program;
}

const SAID = { stdout: '', stderr: '' } as const;

/** The same with a callback that is told what the program has written. */
const asked: Method = Object.assign(
  (...given: readonly unknown[]) => {
    const told = given.at(-1);
    const program = started(...given);
    program.on('close', (code: number) => {
      const error = code === 0 ? null : new Error('the program has failed');
      if (typeof told === 'function') told(error, SAID.stdout, SAID.stderr);
    });
    return program;
  },
  { [promisify.custom]: (...given: unknown[]) => work('spawn', given).then(() => SAID) },
);

function saidAtOnce(...given: readonly unknown[]): string {
  note('spawn', given);
  return SAID.stdout;
}

const programs: Module = {
  spawn: started,
  fork: started,
  exec: asked,
  execFile: asked,
  execSync: saidAtOnce,
  execFileSync: saidAtOnce,
  spawnSync: (...given: unknown[]) => {
    note('spawn', given);
    return { ...SAID, status: 0, signal: null, pid: 1_000, output: [] };
  },
};
