import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import type { Checkpoint } from '../explore/index.js';
import { InputError } from '../scenarios/input-error.js';
import type { Io } from './io.js';
import { readBytes } from './read-text.js';
import { sealed, unsealed } from './sealed.js';
import { writeIfPossible } from './write-file.js';

const KIND = 'lockstep.exploration/3';
const A_CHECKPOINT = 'a file that "explore --checkpoint" has written';

/**
 * The exploration that a file holds; `null` if there is no such file yet.
 *
 * @throws InputError if it is not as it was written: one wrong bit may be a state that was never looked at.
 */
export function readCheckpoint(file: string, cwd: string): Checkpoint | null {
  if (!existsSync(resolve(cwd, file))) return null;
  const content = unsealed(KIND, readBytes(file, cwd, A_CHECKPOINT, 'a file in it'));
  try {
    const read: unknown = content === null ? null : deserialize(content);
    if (isCheckpoint(read)) return read;
  } catch {
    // Said below.
  }
  throw new InputError(
    `${file}: it is no checkpoint of "lockstep explore", or not as it was written; start again without it`,
  );
}

const LISTS = ['bits', 'commands', 'replies', 'counters', 'locals', 'nodes', 'links', 'stack'] as const;
const COUNTS = ['cursor', 'depth', 'depthEnds', 'transitions'] as const;

function isCheckpoint(read: unknown): read is Checkpoint {
  if (typeof read !== 'object' || read === null) return false;
  const { schema, states, parents, ...rest }: Partial<Checkpoint> = read;
  return (
    schema === KIND &&
    states instanceof Uint32Array &&
    parents instanceof Uint32Array &&
    LISTS.every((name) => Array.isArray(rest[name])) &&
    COUNTS.every((name) => Number.isSafeInteger(rest[name]))
  );
}

/** Writes an exploration down, whole or not at all; returns whether it could be written, and says if not. */
export function writeCheckpoint(checkpoint: Checkpoint, file: string, io: Io): boolean {
  return writeIfPossible(file, sealed(KIND, serialize(checkpoint)), io) !== null;
}
