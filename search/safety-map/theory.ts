import type { PolicyChange } from '../../deviations/index.js';
import type { Cluster } from '../../scenarios/index.js';
import type { CellVerdict } from './cell.js';
import {
  allowanceUs,
  countedAbsenceUs,
  faultyForExclusion,
  greatestStepUs,
  leastAbsenceUs,
  type Margin,
} from './computed.js';
import { majorityOf, type Point, struckOf, votersOf } from './point.js';
import type { Drift } from './rates.js';

const MILLION = 1_000_000;

/**
 * What the mathematics says of a configuration: the safety condition TTL − D ≤ slack + life, with the errors of rate, the
 * step, the absence of a crashed voter, and how many voters it takes. Nothing is run.
 */
export function computed(
  point: Point,
  change: PolicyChange = {},
  persistence: Cluster['persistence'] = 'none',
): CellVerdict {
  const { ttl, drift, latency } = point;
  const rule = allowanceOf(point, change);
  const margin = { claimUs: ttl - allowanceUs(ttl, rule), lifeUs: ttl, slackUs: 2 * latency };
  const rate = drift / MILLION;
  const voters = votersOf(point, change);
  // Validity is what is left when the votes are in, by the holder's slow clock.
  const leftUs = margin.claimUs - 2 * latency * (1 - rate);
  if (voters < majorityOf(point.nodes, change) || leftUs <= 0) return 'unavailable';
  // A node that keeps all that it has acknowledged does no harm by a crash.
  const losing = persistence === 'always' ? { ...point, 'restart-delay': null } : point;
  if (isShared(losing, margin, rate, change)) return 'violated';
  if (point['write-delay'] > 0) {
    const leftByFast = margin.claimUs - 2 * latency * (1 + rate);
    if (Math.max(1, point.guard) > leftByFast) return 'unavailable';
    // A claim does not include its last instant.
    if (point['write-delay'] >= Math.max(1, point.guard) / (1 + rate)) return 'violated';
  }
  return isOut(point, change) ? 'unavailable' : 'safe';
}

/** What the client takes off its validity; a client that adds it takes off less than nothing. */
function allowanceOf(
  { 'drift-allowance': allowance, 'fixed-allowance': extra }: Point,
  { deviations = [] }: PolicyChange,
): Drift {
  const adds = deviations.includes('drift-added');
  const addsConstant = adds || deviations.includes('drift-constant-added');
  return {
    driftPpm: adds ? -allowance : allowance,
    driftUs: addsConstant ? -extra : extra,
    driftWholeMs: !deviations.includes('drift-unrounded'),
  };
}

/** Whether two clients can hold the lock at once. */
function isShared(point: Point, margin: Margin, rate: number, change: PolicyChange): boolean {
  const { nodes, 'nodes-down': down, latency, step, 'restart-delay': delay } = point;
  const harmless = greatestStepUs(margin, rate);
  if (harmless < 0) return true;
  const needed = faultyForExclusion(nodes - down, majorityOf(nodes, change), votersOf(point, change));
  if (struckOf(point, change) < needed) return false;
  if (harmless < step) return true;
  if (delay === null) return false;
  return delay < countedAbsenceUs(leastAbsenceUs(margin.claimUs, latency, latency, rate), rate, step);
}

/** Whether so many nodes are down at once that nobody has a quorum. */
function isOut(point: Point, change: PolicyChange): boolean {
  const { nodes, 'nodes-down': down, 'restart-delay': delay } = point;
  const crashed = delay === null || delay === 0 ? 0 : struckOf(point, change);
  return nodes - down - crashed < majorityOf(nodes, change);
}
