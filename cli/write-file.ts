import { mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { InputError } from '../scenarios/input-error.js';
import { printable } from '../text/printable.js';
import { type Io, say } from './io.js';

const LONGEST_PATH = 200;

/**
 * Writes a file: never half of it, and never over a file that somebody reads.
 *
 * @param path - From `cwd`; folders that are not there are made.
 * @returns The path.
 */
export function writeWhole(path: string, content: string | Uint8Array, cwd: string): string {
  const target = resolve(cwd, path);
  const there = statSync(target, { throwIfNoEntry: false });
  if (there !== undefined && !there.isFile() && !there.isDirectory()) {
    // A pipe or a device stays what it is.
    writeFileSync(target, content);
    return path;
  }
  const draft = `${target}.${process.pid}.tmp`;
  try {
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(draft, content);
    renameSync(draft, target);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
  return path;
}

/**
 * The same for a file that a person asked for.
 *
 * @param flag - What they asked with.
 * @returns The path.
 * @throws InputError in one sentence if it cannot be written.
 */
export function writeNamed(flag: string, path: string, content: string | Uint8Array, cwd: string): string {
  try {
    return writeWhole(path, content, cwd);
  } catch (error) {
    throw new InputError(`${flag}: ${reasonNotWritten(path, error)}`);
  }
}

/**
 * The same for a file that comes with a result, which must not be lost with it.
 *
 * @returns The path; `null` if it could not be written, which has been said on stderr.
 */
export function writeIfPossible(path: string, content: string | Uint8Array, io: Io): string | null {
  try {
    return writeWhole(path, content, io.cwd);
  } catch (error) {
    say(io, reasonNotWritten(path, error));
    return null;
  }
}

const LONGEST_NAME = 80;

/** A text of somebody else's as the name of a file, without an ending: it names no folder, and no hidden file. */
export function fileName(text: string): string {
  // In its middle, so that names which differ in their ends only stay apart.
  const safe = printable(text.replace(/[^\p{L}\p{N}_.-]+/gu, '-'), LONGEST_NAME).replace('…', '--');
  return safe === '' || safe.startsWith('.') ? `_${safe}` : safe;
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'no space is left on the disk',
  EDQUOT: 'the quota of the disk is used up',
  EROFS: 'the disk is read-only',
  EACCES: 'its folder may not be written to; check its permissions',
  EPERM: 'its folder may not be written to; check its permissions',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is no folder',
  EEXIST: 'a part of its path is no folder',
  ENAMETOOLONG: 'its name is too long',
};

/** Why a file could not be written, as a sentence. */
export function reasonNotWritten(path: string, error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const reason = REASONS[code] ?? (error instanceof Error ? error.message : String(error));
  return `${printable(path, LONGEST_PATH)} cannot be written: ${reason}`;
}
