import type { Crash, FsyncPlan } from '../scenarios/index.js';
import type { ClusterSetup } from './cluster-setup.js';
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
 * keeps new writes in its own memory. A server that is shut down in order takes all of it to disk first.
 */
export function keptUntil(cluster: ClusterSetup, now: TrueTime, { power, clean }: Crash): number {
  const { persistence, answers, fsync = EVERY_SECOND } = cluster;
  if (persistence === 'none') return NOTHING;
  if (clean === true || (persistence === 'always' && answers !== 'executed')) return EVERYTHING;
  const { firstUs, everyUs, takesUs } = fsync;
  const startBefore = (at: number): number =>
    at < firstUs ? NOTHING : firstUs + Math.floor((at - firstUs) / everyUs) * everyUs;
  if (power) return startBefore(now - takesUs);
  const latest = startBefore(now);
  return latest !== NOTHING && now < latest + takesUs ? latest : EVERYTHING;
}

/** How long after `now` a node may answer what it has just written, µs; `null` for never. `replica` is whether it has one. */
export function answersAfterUs(cluster: ClusterSetup, now: TrueTime, replica: boolean): number | null {
  const { answers, persistence, replicaLagUs, fsync = EVERY_SECOND } = cluster;
  if (answers === 'replicated') return replica ? replicaLagUs : null;
  if (answers !== 'durable' || persistence !== 'everysec') return 0;
  const { firstUs, everyUs, takesUs } = fsync;
  const start = now <= firstUs ? firstUs : firstUs + Math.ceil((now - firstUs) / everyUs) * everyUs;
  return start + takesUs - now;
}
