import type { RandomStream } from '../../sim/index.js';
import type { Bin } from './model.js';

const WORDS = 4294967296;

/** An even draw between 0 and 1, neither included. */
export function unit(stream: RandomStream): number {
  return ((stream.word() >>> 0) + 0.5) / WORDS;
}

/** An even draw of a whole number, both ends included, however far they are apart. */
export function between(low: number, high: number, stream: RandomStream): number {
  return low + Math.floor(unit(stream) * (high - low + 1));
}

/** A whole number of a bar, evenly on a logarithmic scale. */
export function logBetween({ from, to }: Bin, stream: RandomStream): number {
  return Math.round(from * (to / from) ** unit(stream));
}

/** A count with a Poisson distribution of this mean, at most some hundreds. */
export function poisson(mean: number, stream: RandomStream): number {
  const limit = Math.exp(-mean);
  let count = 0;
  for (let product = unit(stream); product > limit; product *= unit(stream)) count++;
  return count;
}
