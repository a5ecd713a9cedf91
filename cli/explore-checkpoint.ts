import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import type { Checkpoint } from '../properties/index.js';
import { InputError } from '../scenarios/input-error.js';
import { writeNamed } from './write-file.js';

/** The exploration that a file holds; `null` if there is no such file yet. */
export function readCheckpoint(file: string, cwd: string): Checkpoint | null {
  let bytes: Buffer;
  try {
    bytes = readFileSync(resolve(cwd, file));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw new InputError(`--checkpoint: ${file} cannot be read: ${error instanceof Error ? error.message : error}`);
  }
  try {
    const read: unknown = deserialize(bytes);
    if (isCheckpoint(read)) return read;
  } catch {
    // Said below.
  }
  throw new InputError(`--checkpoint: ${file} is not a checkpoint of "lockstep explore", or only a part of one`);
}

function isCheckpoint(read: unknown): read is Checkpoint {
  return typeof read === 'object' && read !== null && 'schema' in read && read.schema === 'lockstep.exploration/1';
}

/** Writes an exploration down, whole or not at all. */
export function writeCheckpoint(checkpoint: Checkpoint, file: string, cwd: string): void {
  writeNamed('--checkpoint', file, serialize(checkpoint), cwd);
}
