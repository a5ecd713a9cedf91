import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { InputError } from '../scenarios/input-error.js';

/**
 * Writes a file: never half of it, and never over a file that somebody reads.
 *
 * @param path - From `cwd`; folders that are not there are made.
 * @returns The path.
 */
export function writeWhole(path: string, content: string | Uint8Array, cwd: string): string {
  const target = resolve(cwd, path);
  const draft = `${target}.${process.pid}.tmp`;
  mkdirSync(dirname(target), { recursive: true });
  try {
    writeFileSync(draft, content);
    renameSync(draft, target);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
  return path;
}

/**
 * The same for a file that a person names with a flag.
 *
 * @throws InputError in one sentence if it cannot be written.
 */
export function writeNamed(flag: string, path: string, content: string | Uint8Array, cwd: string): void {
  try {
    writeWhole(path, content, cwd);
  } catch (error) {
    throw new InputError(`${flag}: ${path} cannot be written: ${error instanceof Error ? error.message : error}`);
  }
}
