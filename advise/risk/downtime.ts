import type { RandomStream } from '../../sim/index.js';
import { unit } from './draws.js';
import type { Bin, RiskNode } from './model.js';

/** Redis's `appendfsync everysec` and `save 3600 1`, µs. */
const FSYNC_US = 1_000_000;
const DUMP_US = 3_600_000_000;
/** Older than all that a run sets. */
const EVERYTHING_US = 1_000_000_000_000;

/** How much of the latest a node has lost when it comes back, µs. */
export function lossAgeUs({ persistence, diskKept }: RiskNode, power: boolean, stream: RandomStream): number {
  const age = unit(stream);
  if (persistence === 'none' || !diskKept) return EVERYTHING_US;
  if (persistence === 'rdb') return 1 + Math.floor(age * DUMP_US);
  return persistence === 'everysec' && power ? 1 + Math.floor(age * FSYNC_US) : 0;
}

/** The mean of what a bar draws, but at least `leastUs`. */
export function meanDownUs({ from, to }: Bin, leastUs: number): number {
  if (to <= leastUs) return leastUs;
  if (from === to) return to;
  const [short, long] = partsOf({ from, to }, leastUs);
  return short + long;
}

/** What draws below and above `leastUs` give to the mean. */
function partsOf({ from, to }: Pick<Bin, 'from' | 'to'>, leastUs: number): [number, number] {
  const span = Math.log(to / from);
  const cut = Math.max(from, leastUs);
  return [(cut * Math.log(cut / from)) / span, (to - cut) / span];
}

/** How long it still goes on, of an event that is going on at a given time: long ones are met more often. */
export function residualDownUs(bin: Bin, leastUs: number, stream: RandomStream): number {
  const [which, length, rest] = [unit(stream), unit(stream), unit(stream)];
  return Math.max(1, Math.round(rest * metDownUs(bin, leastUs, which, length)));
}

function metDownUs(bin: Bin, leastUs: number, which: number, length: number): number {
  const { from, to } = bin;
  if (to <= leastUs) return leastUs;
  if (from === to) return to;
  // Weighing an even logarithmic scale by length makes an even one.
  const [short, long] = partsOf(bin, leastUs);
  const cut = Math.max(from, leastUs);
  return which * (short + long) < short ? cut : cut + length * (to - cut);
}

/** The most that {@link lossAgeUs} draws. */
export function worstAgeUs({ persistence, diskKept }: RiskNode, power: boolean): number {
  if (persistence === 'none' || !diskKept) return EVERYTHING_US;
  if (persistence === 'rdb') return DUMP_US;
  return persistence === 'everysec' && power ? FSYNC_US : 0;
}
