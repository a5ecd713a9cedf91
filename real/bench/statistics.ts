import type { Ratio } from './types.js';

/** The value below which the share `q` of `values` lies, interpolated; 0 of none. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = Float64Array.from(values).sort();
  if (sorted.length === 0) return 0;
  const at = (sorted.length - 1) * q;
  const low = sorted[Math.floor(at)] ?? 0;
  const high = sorted[Math.ceil(at)] ?? low;
  return low + (high - low) * (at - Math.floor(at));
}

/** The median of some values; 0 of none. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/**
 * The median of `values` and an interval that has the true median in it with a probability of 95 % or more: from the
 * k-th smallest to the k-th largest, by the binomial distribution of how many values lie below the median. Fewer than
 * six values have no such interval, and get their whole range.
 */
export function medianWithInterval(values: readonly number[]): Ratio {
  const sorted = [...values].sort((a, b) => a - b);
  const cut = valuesOutside(sorted.length);
  const low = sorted[cut] ?? 0;
  return { median: median(sorted), low, high: sorted[sorted.length - 1 - cut] ?? low };
}

/** How many values may be left out at each end: the most for which P(so many or fewer lie below) is at most 2.5 %. */
function valuesOutside(count: number): number {
  let cut = 0;
  let probability = 0.5 ** count;
  let tail = probability;
  for (;;) {
    probability *= (count - cut) / (cut + 1);
    tail += probability;
    if (tail > 0.025) return cut;
    cut++;
  }
}

/** Jain's index of fairness: 1 if all shares are equal, 1/n if one has everything; 0 of nothing at all. */
export function jain(shares: readonly number[]): number {
  const sum = shares.reduce((a, b) => a + b, 0);
  const squares = shares.reduce((a, b) => a + b * b, 0);
  return squares === 0 ? 0 : (sum * sum) / (shares.length * squares);
}
