import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CampaignPart } from '../campaign/index.js';
import { InputError } from '../scenarios/input-error.js';
import { readText } from './read-text.js';

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

/** Writes it whole or not at all. */
export function writePart(part: CampaignPart, path: string, cwd: string): void {
  const target = join(cwd, path);
  const draft = `${target}.${process.pid}.tmp`;
  writeFileSync(draft, `${JSON.stringify(part)}\n`);
  renameSync(draft, target);
}
