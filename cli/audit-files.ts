import { statSync } from 'node:fs';
import { relative, resolve, sep } from 'node:path';
import { globSync, isDynamicPattern } from 'tinyglobby';
import { InputError, show } from '../scenarios/input-error.js';

/** The files that are to be audited. */
export interface AuditFiles {
  /** From the working directory, with slashes. */
  readonly files: readonly string[];
  /** Files without a lock are left out with a sentence, since nobody has said that there is one in each. */
  readonly isMany: boolean;
}

/**
 * Finds the files that words of the command line name: paths, or patterns that no shell has replaced.
 *
 * @throws InputError where there is none.
 */
export function auditFiles(words: readonly string[], skip: boolean, cwd: string): AuditFiles {
  let isMany = skip || words.length > 1;
  const files = words.flatMap((word) => {
    if (statSync(resolve(cwd, word), { throwIfNoEntry: false })?.isFile()) return [pathFrom(cwd, resolve(cwd, word))];
    if (!isDynamicPattern(word)) throw noSuchFile(word);
    isMany = true;
    const found = globSync(word, { cwd, ignore: ['**/node_modules/**'], expandDirectories: false }).sort();
    if (found.length === 0) throw noSuchFile(word);
    return found;
  });
  return { files: [...new Set(files)], isMany };
}

function noSuchFile(word: string): InputError {
  return new InputError(`audit: there is no such file: ${show(word)}`);
}

/** A path as it is written down: from a folder, with slashes, so that it is the same on every machine. */
export function pathFrom(folder: string, path: string): string {
  return relative(folder, path).replaceAll(sep, '/');
}

/** Why a file is not looked into where many are named; `null` for one that may have a lock. */
export function whyNoLock(file: string): string | null {
  if (!/\.[cm]?[jt]sx?$/.test(file)) return 'it is neither JavaScript nor TypeScript';
  if (/\.d\.[cm]?ts$/.test(file)) return 'it has nothing but types';
  return /\.(?:test|spec)\.[cm]?[jt]sx?$/.test(file) ? 'it is a test' : null;
}
