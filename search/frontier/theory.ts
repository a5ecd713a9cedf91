import type { PolicyChange } from '../../deviations/index.js';
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
export function computed(point: Point, { deviations = [] }: PolicyChange = {}): CellVerdict {
  const { ttl, drift, latency, allowance, extra } = point;
  const rule: Drift = { driftPpm: allowance, driftUs: extra, driftWholeMs: !deviations.includes('drift-unrounded') };
  const margin = { claimUs: ttl - allowanceUs(ttl, rule), lifeUs: ttl, slackUs: 2 * latency };
  const rate = drift / MILLION;
  const voters = votersOf(point);
  // Validity is what is left when the votes are in, by the holder's slow clock.
  const leftUs = margin.claimUs - 2 * latency * (1 - rate);
  if (voters < majorityOf(point.nodes) || leftUs <= 0) return 'unavailable';
  if (isShared(point, margin, rate)) return 'violated';
  if (point.pause > 0) {
    const leftByFast = margin.claimUs - 2 * latency * (1 + rate);
    if (Math.max(1, point.guard) > leftByFast) return 'unavailable';
    // A claim does not include its last instant.
    if (point.pause >= Math.max(1, point.guard) / (1 + rate)) return 'violated';
  }
  return isOut(point) ? 'unavailable' : 'safe';
}

/** Whether two clients can hold the lock at once. */
function isShared(point: Point, margin: Margin, rate: number): boolean {
  const { nodes, down, latency, step, 'restart-delay': delay } = point;
  const harmless = greatestStepUs(margin, rate);
  if (harmless < 0) return true;
  const needed = faultyForExclusion(nodes - down, majorityOf(nodes), votersOf(point));
  if (struckOf(point) < needed) return false;
  if (harmless < step) return true;
  if (delay === null) return false;
  return delay < countedAbsenceUs(leastAbsenceUs(margin.claimUs, latency, latency, rate), rate, step);
}

/** Whether so many nodes are down at once that nobody has a quorum. */
function isOut(point: Point): boolean {
  const { nodes, down, 'restart-delay': delay } = point;
  const crashed = delay === null || delay === 0 ? 0 : struckOf(point);
  return nodes - down - crashed < majorityOf(nodes);
}
