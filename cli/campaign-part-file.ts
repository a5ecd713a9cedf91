import { type CampaignPart, mergeParts, partError } from '../campaign/index.js';
import { InputError } from '../scenarios/input-error.js';
import type { Io } from './io.js';
import { readBytes } from './read-text.js';
import { sealedJson, unsealedJson } from './sealed.js';
import { writeIfPossible, writeNamed } from './write-file.js';

/** @throws InputError if the file is not one of a shard, as it was written. */
export function readPart(path: string, cwd: string): CampaignPart {
  const bytes = readBytes(path, cwd, 'a file that a shard has written', 'a file in it');
  const part = partIn(unsealedJson(bytes));
  if (part === null) {
    const what = 'it is no part of a campaign, or not as it was written';
    throw new InputError(`${path}: ${what}; give a file that "campaign --out" has written`);
  }
  const wrong = partError(part);
  if (wrong !== null) throw new InputError(`${path}: it is no part of a campaign: ${wrong}`);
  return part;
}

function partIn(text: string | null): CampaignPart | null {
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}

/** Files of shards, at least one, added up. */
export function readParts(paths: readonly string[], cwd: string): CampaignPart {
  return paths.map((path) => readPart(path, cwd)).reduce(mergeParts);
}

/** Writes the file that `--out` names. */
export function writePart(part: CampaignPart, path: string, cwd: string): void {
  writeNamed('--out', path, sealedJson(part), cwd);
}

/** The same where a result would be lost with it; returns whether it could be written, and says if not. */
export function writePartIfPossible(part: CampaignPart, path: string, io: Io): boolean {
  return writeIfPossible(path, sealedJson(part), io) !== null;
}
