import { InputError } from '../scenarios/index.js';
import { engineHash } from './engine.js';
import { type CampaignPart, mergeParts, noPart } from './part.js';
import { runInline } from './range-runner.js';
import { type CampaignRange, CampaignRanges, type CampaignSpec, librariesOf } from './spec.js';
import type { UnitResult } from './unit.js';

/** A range that was made again by itself. */
export interface RerunResult {
  readonly spec: CampaignSpec;
  readonly range: CampaignRange;
  /** The hash that it came to before; `null` where that is kept in a sum only. */
  readonly digest: string | null;
  readonly unit: UnitResult;
}

/**
 * Makes a range of a shard's file again by itself.
 *
 * @throws InputError if the file has no such range, or it was made by another engine.
 */
export async function rerunRange(part: CampaignPart, index: number): Promise<RerunResult> {
  const { spec, done } = part;
  mergeParts(part, noPart({ ...spec, engine: engineHash(librariesOf(spec)) }));
  if (!done.some(([from, to]) => from <= index && index < to)) throw new InputError(notMade(index));
  const range = new CampaignRanges(spec).at(index);
  return { spec, range, digest: null, unit: await runInline(spec, range) };
}

/** What is said of a range that nobody has made yet. */
export function notMade(index: number): string {
  return `range ${index}: it has not been made`;
}
