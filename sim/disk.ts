import type { Crash, FsyncPlan } from '../scenarios/index.js';
import type { ClusterSetup } from './cluster-setup.js';
import type { TrueTime } from './time.js';

/** Redis's `appendfsync everysec`. */
const EVERY_SECOND: FsyncPlan = { firstUs: 0, everyUs: 1_000_000, takesUs: 0 };

/** Redis's `save 3600 1`; its other save points take more writes than a run has. */
const EVERY_HOUR: FsyncPlan = { firstUs: 3_600_000_000, everyUs: 3_600_000_000, takesUs: 0 };

/** Nothing survives, or everything does. */
const NOTHING = -1;
const EVERYTHING: number = Number.POSITIVE_INFINITY;

/** From one start to the next: none starts while one runs. */
function periodOf({ everyUs, takesUs }: FsyncPlan): number {
  return Math.max(everyUs, takesUs);
}

/** The last start by `at`. */
function startBy(plan: FsyncPlan, at: number): number {
  const { firstUs } = plan;
  const period = periodOf(plan);
  return at < firstUs ? NOTHING : firstUs + Math.floor((at - firstUs) / period) * period;
}

/**
 * Until when a node that crashes at `now` remembers, µs of true time.
 *
 * With `everysec`, power loss leaves what was written by the start of the last fsync that completed. If only the
 * process dies, what it had handed to the kernel stays, which is everything, except while an fsync runs: then Redis
 * keeps new writes in its own memory. With `rdb`, either leaves what was there at the start of the last dump that completed. A
 * server that is shut down in order takes all of it to disk first. What is loaded may be older than all that.
 */
export function keptUntil(cluster: ClusterSetup, now: TrueTime, { power, clean, ageUs = 0 }: Crash): number {
  const { persistence, answers, fsync = EVERY_SECOND, dumps = EVERY_HOUR } = cluster;
  if (persistence === 'none') return NOTHING;
  const keepsAll = persistence === 'always' && answers !== 'executed';
  if (ageUs === 0 && (clean === true || keepsAll)) return EVERYTHING;
  const at = now - ageUs;
  if (keepsAll) return Math.max(NOTHING, at);
  const plan = persistence === 'rdb' ? dumps : fsync;
  if (power || ageUs > 0 || persistence === 'rdb') return startBy(plan, at - plan.takesUs);
  const latest = startBy(plan, now);
  return latest !== NOTHING && now < latest + plan.takesUs ? latest : EVERYTHING;
}

/** How long after `now` a node may answer what it has just written, µs; `null` for never. `replica` is whether it has one. */
export function answersAfterUs(cluster: ClusterSetup, now: TrueTime, replica: boolean): number | null {
  const { answers, persistence, replicaLagUs, fsync = EVERY_SECOND } = cluster;
  if (answers === 'replicated') return replica ? replicaLagUs : null;
  if (answers !== 'durable' || persistence !== 'everysec') return 0;
  const { firstUs, takesUs } = fsync;
  const period = periodOf(fsync);
  const start = now <= firstUs ? firstUs : firstUs + Math.ceil((now - firstUs) / period) * period;
  return start + takesUs - now;
}
