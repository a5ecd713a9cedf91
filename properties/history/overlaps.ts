import type { Hold } from './lock-history.js';
import type { Rules } from './rules.js';

/** Two locks that certainly held one resource at one time. */
export interface Overlap {
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

function certain(hold: Hold, { shrinks }: Rules): Certain {
  if (!shrinks) return { hold, fromUs: hold.fromUs, untilUs: hold.untilUs };
  return { hold, fromUs: hold.fromUs + hold.fromErrorUs, untilUs: hold.untilUs - hold.untilErrorUs };
}
