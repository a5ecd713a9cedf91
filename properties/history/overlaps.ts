import type { Hold } from './lock-history.js';
import type { Rules } from './rules.js';

/** Two locks that certainly held one resource at one time. */
interface Overlap {
  readonly first: Hold;
  readonly second: Hold;
  /** What both certainly had, µs. */
  readonly fromUs: number;
  readonly untilUs: number;
}

/** A hold without what the error of the clocks may have added. */
interface Certain {
  readonly hold: Hold;
  readonly fromUs: number;
  readonly untilUs: number;
}

/**
 * Holds of one resource that overlap another which began before, each once, with the longest of those: sorted by their
 * beginning, one pass.
 */
export function overlaps(holds: readonly Hold[], rules: Rules): Overlap[] {
  const found: Overlap[] = [];
  let before: Certain | null = null;
  for (const next of holds.map((hold) => certain(hold, rules)).sort((a, b) => a.fromUs - b.fromUs)) {
    if (next.untilUs <= next.fromUs) continue;
    if (before !== null && (rules.closed ? next.fromUs <= before.untilUs : next.fromUs < before.untilUs)) {
      const untilUs = Math.min(before.untilUs, next.untilUs);
      found.push({ first: before.hold, second: next.hold, fromUs: next.fromUs, untilUs });
    }
    if (before === null || rules.comparesWith === 'last' || next.untilUs > before.untilUs) before = next;
  }
  return found;
}

/** A lock that was extended after its validity had ended, though another certainly held the resource in between. */
interface Loss {
  /** What it held before and after, and the hold in between. */
  readonly before: Hold;
  readonly after: Hold;
  readonly between: Hold;
}

/** Losses of one resource that nobody was told of. Most locks have one hold and cost nothing here. */
export function losses(holds: readonly Hold[], rules: Rules): Loss[] {
  const gaps = holds.filter(({ previous }) => previous !== null);
  if (gaps.length === 0 || !rules.noticesLoss) return [];
  const sorted = holds
    .map((hold) => certain(hold, rules))
    .filter(({ fromUs, untilUs }) => fromUs < untilUs)
    .sort((a, b) => a.fromUs - b.fromUs);
  return gaps.flatMap((after) => {
    const before = after.previous;
    if (before === null) return [];
    // From when it was not certainly held any more to when it was extended at the earliest.
    const [fromUs, toUs] = [certain(before, rules).untilUs, after.fromUs - (rules.shrinks ? after.fromErrorUs : 0)];
    for (let i = firstFrom(sorted, fromUs); i < sorted.length; i++) {
      const it = sorted[i];
      if (it === undefined || it.fromUs >= toUs) break;
      if (it.hold.lock !== before.lock) return [{ before, after, between: it.hold }];
    }
    return [];
  });
}

/** The first that begins at or after an instant. */
function firstFrom(sorted: readonly Certain[], fromUs: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle]?.fromUs ?? 0) < fromUs) low = middle + 1;
    else high = middle;
  }
  return low;
}

function certain(hold: Hold, { shrinks }: Rules): Certain {
  if (!shrinks) return { hold, fromUs: hold.fromUs, untilUs: hold.untilUs };
  return { hold, fromUs: hold.fromUs + hold.fromErrorUs, untilUs: hold.untilUs - hold.untilErrorUs };
}
