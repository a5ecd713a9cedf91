import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { InputError } from '../scenarios/input-error.js';

/** The text of a file that a person names: see {@link readBytes}. */
export function readText(path: string, cwd: string, wanted: string, folder: string): string {
  return readBytes(path, cwd, wanted, folder).toString('utf8');
}

/**
 * What is in a file that a person names; `wanted` says what to give instead where there is none, or `folder` where it
 * is one.
 *
 * @throws InputError in one sentence if it cannot be read.
 */
export function readBytes(path: string, cwd: string, wanted: string, folder: string): Buffer {
  try {
    return readFileSync(resolve(cwd, path));
  } catch (error) {
    throw new InputError(`${path}: ${reason(error, wanted, folder)}`);
  }
}

function reason(error: unknown, wanted: string, folder: string): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  switch (code) {
    case 'ENOENT':
      return `there is no such file; give ${wanted}`;
    case 'EISDIR':
      return `it is a folder; give ${folder}`;
    case 'EACCES':
    case 'EPERM':
      return 'it may not be read; check its permissions';
    default:
      return `it cannot be read (${error instanceof Error ? error.message : String(error)})`;
  }
}
