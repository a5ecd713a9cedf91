import childProcess from 'node:child_process';
import { EventEmitter } from 'node:events';
import fs from 'node:fs';
import { Writable } from 'node:stream';
import { promisify } from 'node:util';
import { current } from '../libraries/runtime/owner.js';
import { unknownValue } from './unknown.js';

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
  if (name === 'child_process') return { ...module, ...programs, default: { ...childProcess, ...programs } };
  return module;
}

/** What newer versions of Node have, for files that were written for these. */
export function provideNewer(): void {
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

function callbackIn(given: readonly unknown[]): Method | null {
  const last = given.at(-1);
  return typeof last === 'function' ? (last as Method) : null;
}

/** A function in the style of Node, which tells a callback what a promise gives. */
function telling(does: (given: readonly unknown[]) => Promise<unknown>): Method {
  return (...given) => {
    const told = callbackIn(given);
    does(told === null ? given : given.slice(0, -1)).then(
      (result) => told?.(null, result),
      (error) => told?.(error),
    );
  };
}

/** A file that is open for writing. */
function file(): unknown {
  const nothing = async (): Promise<void> => {};
  return unknownValue({ close: nothing, sync: nothing, datasync: nothing, chmod: nothing }, 'a', 'file');
}

const isRead = (flags: unknown): boolean => flags === undefined || /^rs?\+?$/.test(String(flags));

const promises: Module = {
  ...fs.promises,
  ...Object.fromEntries(WRITES.map((name) => [name, async (...given: unknown[]) => void (await work(name, given))])),
  ...Object.fromEntries(MAKES_ROOM.map((name) => [name, async () => undefined])),
  ...Object.fromEntries(READS.map((name) => [name, async (...given: unknown[]) => reading(name)(...given)])),
  mkdtemp: async (prefix: string) => `${prefix}000000`,
  open: async (path: string, flags?: string) =>
    isRead(flags) ? fs.promises.open(path, flags) : work('open', [path]).then(file),
};

/** @throws What names the call that would open a file for writing by its number: nothing stands for that. */
function opening(name: string, native: unknown, path: string, flags: unknown, ...more: readonly unknown[]): unknown {
  if (!isRead(typeof flags === 'function' ? undefined : flags) && current.owner !== null)
    throw current.owner.refuses(`calls fs.${name} to write, which would change a real file`);
  return (native as Method)(path, flags, ...more);
}

function reading(name: string): Method {
  return Reflect.get(fs, `${name}Sync`) as Method;
}

const files: Module = {
  ...Object.fromEntries(
    WRITES.flatMap((name) => [
      [name, telling((given) => work(name, given).then(() => undefined))],
      [`${name}Sync`, (...given: unknown[]): void => void note(name, given)],
    ]),
  ),
  ...Object.fromEntries(
    MAKES_ROOM.flatMap((name) => [
      [name, telling(async () => undefined)],
      [`${name}Sync`, () => undefined],
    ]),
  ),
  ...Object.fromEntries(READS.map((name) => [name, telling(async (given) => reading(name)(...given))])),
  open: (path: string, flags: unknown, ...more: unknown[]) => opening('open', fs.open, path, flags, ...more),
  openSync: (path: string, flags: unknown, ...more: unknown[]) =>
    opening('openSync', fs.openSync, path, flags, ...more),
  mkdtempSync: (prefix: string) => `${prefix}000000`,
  createWriteStream: (path: string): Writable =>
    new Writable({ write: (_, __, done) => void work('write', [path]).then(() => done(), done) }),
};

/** What a program writes: nothing. */
function output(): EventEmitter {
  const nothing = (): undefined => undefined;
  return Object.assign(new EventEmitter(), { setEncoding: nothing, resume: nothing, pipe: nothing });
}

/** A program that has run when its work is done, and has succeeded. */
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

/** What runs a program and tells what that has said. */
function asked(name: string): Method {
  const tells: Method = (...given) => {
    const told = callbackIn(given);
    work(name, told === null ? given : given.slice(0, -1)).then(
      () => told?.(null, SAID.stdout, SAID.stderr),
      (error) => told?.(error, SAID.stdout, SAID.stderr),
    );
    return new EventEmitter();
  };
  return Object.assign(tells, { [promisify.custom]: (...given: unknown[]) => work(name, given).then(() => SAID) });
}

function done(name: string, given: readonly unknown[]): typeof SAID {
  note(name, given);
  return SAID;
}

const programs: Module = {
  spawn: started,
  fork: started,
  exec: asked('exec'),
  execFile: asked('execFile'),
  execSync: (...given: unknown[]) => done('exec', given).stdout,
  execFileSync: (...given: unknown[]) => done('execFile', given).stdout,
  spawnSync: (...given: unknown[]) => ({ ...done('spawn', given), status: 0, signal: null, pid: 1_000, output: [] }),
};
