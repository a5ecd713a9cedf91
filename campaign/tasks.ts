import { type RangeResult, type SearchPlan, searchRange } from '../properties/search/range.js';

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

export function range({ plan, from, to, stopAfter }: RangeTask): RangeResult {
  return searchRange(plan, from, to, stopAfter);
}
