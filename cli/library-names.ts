import { existsSync } from 'node:fs';
import { basename, relative, resolve } from 'node:path';
import type { RecordedClient } from '../libraries/failure-file.js';
import type { LibraryRef } from '../libraries/test-library.js';
import { InputError, show } from '../scenarios/input-error.js';
import { meant } from '../scenarios/nearest.js';

/** A library of the user's own. */
export function ownLibrary(file: string, cwd: string, flag: string): LibraryRef {
  const path = resolve(cwd, file);
  if (!existsSync(path)) throw new InputError(`${flag}: there is no file ${file}`);
  return { id: basename(path).replace(/\.[cm]?[jt]sx?$/, ''), path };
}

/** Two libraries of the matrix beside each other. */
export function pairNamed(ids: readonly string[], sameKey: boolean): LibraryRef {
  return { id: ids.join(), ...(sameKey ? { sameKey } : {}) };
}

/** Whose client that is, as a file says it that lies below `cwd`. */
export function clientOf({ id, path, sameKey }: LibraryRef, cwd: string): RecordedClient {
  if (id.includes(',') && path === undefined) return { from: 'pair', name: id, ...(sameKey ? { sameKey } : {}) };
  if (path === undefined) return { from: 'library', name: id };
  const name = relative(cwd, path);
  return { from: 'file', name: name.startsWith('..') ? name : `./${name}` };
}

/** @throws InputError for what is not possible. */
export function known(given: readonly string[], possible: readonly string[], flag: string): void {
  const unknown = given.find((it) => !possible.includes(it));
  if (unknown !== undefined)
    throw new InputError(`${flag}: ${show(unknown)} is not one of its values; ${meant(unknown, possible, 'they are')}`);
}
