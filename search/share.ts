/**
 * The share of failing schedules that a search without a finding leaves possible: with more than this share, `runs`
 * independent draws would have found one with at least this confidence.
 */
export function greatestShare(runs: number, confidence: number = CONFIDENCE): number {
  return runs === 0 ? 1 : 1 - (1 - confidence) ** (1 / runs);
}

/** How sure a bound on a share is, unless another confidence is asked for. */
const CONFIDENCE = 0.95;
