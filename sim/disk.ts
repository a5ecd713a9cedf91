import type { Cluster, FsyncPlan } from '../scenarios/index.js';
import type { TrueTime } from './time.js';

/** Redis's `appendfsync everysec`. */
const EVERY_SECOND: FsyncPlan = { firstUs: 0, everyUs: 1_000_000, takesUs: 0 };

/** Nothing survives, or everything does. */
const NOTHING = -1;
const EVERYTHING: number = Number.POSITIVE_INFINITY;

/**
 * Until when a node that crashes at `now` remembers, µs of true time.
 *
 * With `everysec`, power loss leaves what was written by the start of the last fsync that completed. If only the
 * process dies, what it had handed to the kernel stays, which is everything, except while an fsync runs: then Redis
 * keeps new writes in its own memory.
 */
export function keptUntil({ persistence, fsync = EVERY_SECOND }: Cluster, now: TrueTime, power: boolean): number {
  if (persistence === 'none') return NOTHING;
  if (persistence === 'always') return EVERYTHING;
  const { firstUs, everyUs, takesUs } = fsync;
  const startBefore = (at: number): number =>
    at < firstUs ? NOTHING : firstUs + Math.floor((at - firstUs) / everyUs) * everyUs;
  if (power) return startBefore(now - takesUs);
  const latest = startBefore(now);
  return latest !== NOTHING && now < latest + takesUs ? latest : EVERYTHING;
}
