import type { Detection } from '../search/index.js';
import { type RangeResult, type SearchPlan, searchRange } from '../search/range.js';
import { type HuntTask, hunted } from './hunt.js';
import type { CampaignRange } from './spec.js';
import { runUnit, type UnitResult } from './unit.js';

/*
 * What workers do. Each takes and returns plain data.
 */

/** Runs of a search from `from` to `to`, without `to`, up to `stopAfter` findings. */
export interface RangeTask {
  readonly plan: SearchPlan;
  readonly from: number;
  readonly to: number;
  readonly stopAfter: number;
}

/** Makes a range of a search, in a worker. */
export function range({ plan, from, to, stopAfter }: RangeTask): RangeResult {
  return searchRange(plan, from, to, stopAfter);
}

/** A range of a campaign. */
export interface UnitTask {
  readonly plan: SearchPlan;
  readonly range: CampaignRange;
}

/** A whole range of a campaign, with what it finds made small. */
export function unit({ plan, range: which }: UnitTask): UnitResult {
  return runUnit(plan, which);
}

/** The hunt for a planted bug. */
export function hunt(task: HuntTask): Promise<Detection> {
  return hunted(task);
}
