import { type CampaignPart, mergeParts } from '../campaign/index.js';
import { InputError } from '../scenarios/input-error.js';
import { readText } from './read-text.js';
import { writeNamed } from './write-file.js';

/** @throws InputError if the file is not one of a shard. */
export function readPart(path: string, cwd: string): CampaignPart {
  const text = readText(path, cwd, 'a file that a shard has written', 'a file in it');
  try {
    const part: CampaignPart = JSON.parse(text);
    if (part.schema === 'lockstep.campaign-part/1' && Array.isArray(part.tallies)) return part;
  } catch {
    // Said below.
  }
  throw new InputError(`${path}: it is no part of a campaign; give a file that "campaign --out" has written`);
}

/** Files of shards, at least one, added up. */
export function readParts(paths: readonly string[], cwd: string): CampaignPart {
  return paths.map((path) => readPart(path, cwd)).reduce(mergeParts);
}

/** Writes the file that `--out` names. */
export function writePart(part: CampaignPart, path: string, cwd: string): void {
  writeNamed('--out', path, `${JSON.stringify(part)}\n`, cwd);
}
