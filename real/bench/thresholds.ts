import { CLIENT_LIBRARIES } from '../client-libraries.js';
import {
  type BenchRow,
  type Comparison,
  type Delay,
  HEALTHS,
  type Health,
  type Shape,
  type Threshold,
} from './types.js';

const NODES = 5;
/** A failure on three stopped nodes: three attempts of one node time-out, two pauses, and room for a busy machine. */
const FAILURE_BOUND_US = 3 * 50_000 + 2 * 60_000 + 30_000;
const MOST_P50_DELAY_US = 300;
const MOST_P99_DELAY_US = 5000;

/** What the lock has to reach on five nodes, as far as it was measured. */
export function thresholdsOf(
  rows: readonly BenchRow[],
  comparisons: readonly Comparison[],
  delays: readonly Delay[],
): Threshold[] {
  return [
    ...healthyThresholds(rows, comparisons),
    ...HEALTHS.flatMap((health) => delayThresholds(delays, health)),
    ...failureThresholds(rows),
  ];
}

function healthyThresholds(rows: readonly BenchRow[], comparisons: readonly Comparison[]): Threshold[] {
  const found = (shape: Shape, against: string): Comparison[] =>
    comparisons.filter(
      (it) => it.nodes === NODES && it.health === 'healthy' && it.shape === shape && it.against === against,
    );
  const best = (shape: Shape): Comparison[] => bestPeer(rows, shape).flatMap((peer) => found(shape, peer));
  return [
    ...found('serial', 'floor').flatMap(({ ops, cpu }) => [
      atLeast('serial: 95 % bound of the ratio to the floor', ops.low, 0.95),
      atMost('serial: CPU per operation against the floor', cpu.median, 1.05),
    ]),
    ...best('serial').map(({ against, ops }) =>
      atLeast(`serial: 95 % interval of the ratio to the best peer (${against}) reaches`, ops.high, 1),
    ),
    ...found('concurrent64', 'floor-auto-pipelined').map(({ ops }) =>
      atLeast('64 concurrent: ratio to the auto-pipelined floor', ops.median, 0.85),
    ),
    ...best('concurrent64').map(({ against, ops }) =>
      atLeast(`64 concurrent: ratio to the best peer (${against})`, ops.median, 4),
    ),
    ...found('extend', 'floor-at-quorum').map(({ ops }) =>
      atLeast('extension: ratio to the floor of a quorum', ops.median, 0.95),
    ),
    ...CLIENT_LIBRARIES.flatMap((client) =>
      found('serial', `floor on ${client}`).map(({ ops }) =>
        atLeast(`serial on ${client}: ratio to the floor on it`, ops.median, 0.9),
      ),
    ),
  ];
}

/** The fastest other library, if any was measured. */
function bestPeer(rows: readonly BenchRow[], shape: Shape): string[] {
  const peers = rows.filter(
    (row) =>
      row.nodes === NODES &&
      row.health === 'healthy' &&
      row.shape === shape &&
      row.subject !== 'lockstep' &&
      !/^floor| on /.test(row.subject),
  );
  const best = peers.toSorted((a, b) => b.opsPerSecond - a.opsPerSecond)[0];
  return best === undefined ? [] : [best.subject];
}

function delayThresholds(delays: readonly Delay[], health: Health): Threshold[] {
  if (health === 'three-stopped') return [];
  return delays
    .filter((delay) => delay.health === health)
    .flatMap((delay) => {
      const p50 = delay.p50Us - delay.healthyP50Us;
      const p99 = delay.p99Us - delay.healthyP99Us;
      return [
        delayed(`${health}: acquisition p50 over healthy`, p50, MOST_P50_DELAY_US),
        delayed(`${health}: acquisition p99 over healthy`, p99, MOST_P99_DELAY_US),
      ];
    });
}

function failureThresholds(rows: readonly BenchRow[]): Threshold[] {
  const row = rows.find(({ subject, health }) => subject === 'lockstep' && health === 'three-stopped');
  if (row === undefined) return [];
  const typed = row.failed === row.operations && row.failures.join() === 'ERR_LOCK_QUORUM_UNREACHABLE';
  return [
    {
      what: 'three-stopped: every acquisition fails with ERR_LOCK_QUORUM_UNREACHABLE, p99 within its bound',
      wanted: `≤ ${FAILURE_BOUND_US / 1000} ms`,
      found: `${row.failed} of ${row.operations} (${row.failures.join(', ') || 'none'}), ${(row.p99Us / 1000).toFixed(0)} ms`,
      met: typed && row.p99Us <= FAILURE_BOUND_US,
    },
  ];
}

function atLeast(what: string, found: number, wanted: number): Threshold {
  return { what, wanted: `≥ ${wanted}`, found: found.toFixed(3), met: found >= wanted };
}

function atMost(what: string, found: number, wanted: number): Threshold {
  return { what, wanted: `≤ ${wanted}`, found: found.toFixed(3), met: found <= wanted };
}

function delayed(what: string, foundUs: number, mostUs: number): Threshold {
  const ms = (us: number): string => `${(us / 1000).toFixed(2)} ms`;
  return { what, wanted: `≤ ${ms(mostUs)}`, found: ms(foundUs), met: foundUs <= mostUs };
}
