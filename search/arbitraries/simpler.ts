/*
 * What shrinking makes of a time. It needs no library: the shrinker runs in a page as well.
 */

const UNITS_US = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/** The greatest of the usual units of which a time is a multiple, µs: 1 s, 100 ms and so on down to 1 µs. */
export function roundness(us: number): number {
  return UNITS_US.find((unit) => us % unit === 0) ?? 1;
}

/**
 * Simpler times than `us`, the simplest first: `min`, then whole seconds, hundreds of milliseconds and so on down, and
 * half the way to `min` that is as round. Each is rounder, or shorter and as round.
 *
 * @param later - Rounds up as well: for instants, of which a later one is no longer than an earlier one.
 */
export function* simplerTimes(us: number, min = 0, later = false): IterableIterator<number> {
  if (us === min) return;
  yield min;
  const own = roundness(us);
  const tried = new Set([min]);
  for (const unit of UNITS_US) {
    if (unit <= own) break;
    const down = Math.floor(us / unit) * unit;
    for (const rounder of later ? [down, down + unit] : [down]) {
      if (rounder <= min || tried.has(rounder)) continue;
      tried.add(rounder);
      yield rounder;
    }
  }
  const half = Math.floor((min + (us - min) / 2) / own) * own;
  if (half > min && !tried.has(half)) yield half;
}

/** The same either way, towards 0. */
export function* simplerShifts(us: number): IterableIterator<number> {
  if (us >= 0) yield* simplerTimes(us);
  else for (const simpler of simplerTimes(-us)) yield 0 - simpler;
}
