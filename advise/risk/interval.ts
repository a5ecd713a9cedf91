/** 97.5 % quantile of the normal distribution: a two-sided interval of 95 %. */
export const QUANTILE = 1.959963984540054;

/** A share, or a sum of shares, with its 95 % interval. */
export interface Interval {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** Hits among runs, and what one hit in every run would come to. */
export interface Counted {
  readonly hits: number;
  readonly runs: number;
  readonly weight: number;
}

/** Wilson's score interval of a share (Wilson 1927); without runs, everything is possible. */
export function wilson(hits: number, runs: number, quantile: number = QUANTILE): Interval {
  if (runs === 0) return { value: 0, low: 0, high: 1 };
  const share = hits / runs;
  const square = quantile * quantile;
  const middle = (share + square / (2 * runs)) / (1 + square / runs);
  const half = (quantile * Math.sqrt((share * (1 - share)) / runs + square / (4 * runs * runs))) / (1 + square / runs);
  return { value: share, low: hits === 0 ? 0 : middle - half, high: hits === runs ? 1 : middle + half };
}

/**
 * A weighted sum of independent shares, whose distances to the ends of their own intervals add up as squares (MOVER: Zou and
 * Donner 2008; for shares of strata: Yan and Su 2010). It needs no normal estimate: a stratum without a hit still widens it.
 */
export function weightedSum(strata: readonly Counted[], quantile: number = QUANTILE): Interval {
  let [value, below, above] = [0, 0, 0];
  for (const { hits, runs, weight } of strata) {
    const own = wilson(hits, runs, quantile);
    value += weight * own.value;
    below += (weight * (own.value - own.low)) ** 2;
    above += (weight * (own.high - own.value)) ** 2;
  }
  return { value, low: Math.max(0, value - Math.sqrt(below)), high: value + Math.sqrt(above) };
}
