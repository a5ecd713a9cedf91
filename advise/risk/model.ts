import type { Policy } from '../../deviations/index.js';

/*
 * What an estimate starts from: a lock, its nodes and its clients, and how often things happen to them. Durations are µs,
 * rates are per year of 365 days.
 */

/** A year, µs. */
export const YEAR_US: number = 365 * 24 * 3600 * 1_000_000;

/** One bar of a histogram: values from `from` (at least 1) to `to`, both included, drawn evenly on a logarithmic scale. */
export interface Bin {
  readonly from: number;
  readonly to: number;
  /** Of all events of the cause, so many fall into this bar; those of a histogram add up to 1. */
  readonly share: number;
}

/** How often something happens to one process, and how long it lasts or how far it goes. */
export interface Rate {
  /** Events a year of one node, or of one client. */
  readonly perYear: number;
  readonly bins: readonly Bin[];
}

/** How often things happen. A cause that is left out does not happen. */
export interface Rates {
  /** The server process of a node ends; the bars say how long it is down. */
  readonly crash?: Rate;
  /** A node loses its power; the bars say how long it is down. */
  readonly powerLoss?: Rate;
  /** All nodes lose their power at once: of the whole system, not of one node. */
  readonly powerLossOfAll?: Rate;
  /** A node ends and its replica takes over; the bars say after how long. */
  readonly failover?: Rate;
  /** A running node loses all keys: FLUSHALL, eviction, a restored disk. The bars say nothing. */
  readonly dataLoss?: Rate;
  /** The clock of a node is set forward; by how much. */
  readonly nodeStep?: Rate;
  /** The clocks of all nodes are set forward at once, as by one wrong time server. */
  readonly nodeStepOfAll?: Rate;
  /** The wall clock of a client is set back; by how much. */
  readonly clientStep?: Rate;
  /** The process of a client is paused, and its clocks go on. */
  readonly pause?: Rate;
  /** The machine of a client sleeps: its monotonic clock stops too. */
  readonly suspend?: Rate;
  /** The virtual machine of a client is paused, and no clock of it goes on. */
  readonly vmPause?: Rate;
  /** A node and all clients cannot reach each other. */
  readonly partition?: Rate;
  /** A write takes this long to arrive; `perYear` is here the share of writes, from 0 to 1. */
  readonly lateWrite?: Rate;
}

/** A cause, by the name that it has in rates. */
export type CauseName = keyof Rates;

/** One node. */
export interface RiskNode {
  readonly persistence: 'none' | 'rdb' | 'everysec' | 'always';
  /** Whether a restarted node finds its disk again. */
  readonly diskKept: boolean;
  /** The soonest that it serves again after a stop, µs. `null`: later than any lock lives. */
  readonly restartUs: number | null;
  /** How far the replica that takes over is behind at most, µs. */
  readonly lagUs: number;
}

/** A number of holds that are alike. */
export interface HoldLength {
  /** From the acquisition to the end of the work, µs. */
  readonly us: number;
  /** Of all holds; those of a model add up to 1. */
  readonly share: number;
}

/** The system whose risk is estimated. */
export interface RiskModel {
  /** 1 to 31. */
  readonly nodes: readonly RiskNode[];
  readonly policy: Policy;
  readonly ttlMs: number;
  /** One-way delay between a client and a node: drawn evenly between these for each pair, µs. */
  readonly delayUs: readonly [number, number];
  /** Each clock runs at a rate drawn evenly within ± this, ppm. */
  readonly driftPpm: number;
  /** Validity that is asked for right before each write, µs; `null`: writes are not checked. */
  readonly guardUs: number | null;
  /** From that look, or from the end of the work, to the sending of the write, µs. */
  readonly gapUs: number;
  /** What a write usually takes to the protected resource: drawn evenly between these, µs. */
  readonly writeUs: readonly [number, number];
  /** Whether something is written under the lock, at the end of the work. */
  readonly writes: boolean;
  /** Whether the resource refuses fencing tokens that are lower than one it has seen. */
  readonly fenced: boolean;
  /** Whether the lock is extended while the work goes on, each half of its TTL. */
  readonly extends: boolean;
  /** Of all holds, in so many another client waits for the lock; 0 to 1. */
  readonly contended: number;
  /** How many clients wait then; at least 1. */
  readonly rivals: number;
  readonly locksPerYear: number;
  readonly holds: readonly HoldLength[];
  readonly rates: Rates;
}

/** All causes, in the order in which they are told of. */
export const CAUSE_NAMES: readonly CauseName[] = [
  'crash',
  'powerLoss',
  'powerLossOfAll',
  'failover',
  'dataLoss',
  'nodeStep',
  'nodeStepOfAll',
  'clientStep',
  'pause',
  'suspend',
  'vmPause',
  'partition',
  'lateWrite',
];

/** How often a cause strikes the whole system a year; of late writes: how many. */
export function strikesPerYear(model: RiskModel, cause: CauseName): number {
  const rate = model.rates[cause];
  if (rate === undefined) return 0;
  if (cause === 'lateWrite') return rate.perYear * model.locksPerYear;
  return rate.perYear * subjectsOf(model, cause);
}

/** How many processes a cause may strike that can matter to one hold: every node, the one holder, or the system itself. */
export function subjectsOf({ nodes }: RiskModel, cause: CauseName): number {
  switch (cause) {
    case 'crash':
    case 'powerLoss':
    case 'failover':
    case 'dataLoss':
    case 'nodeStep':
    case 'partition':
      return nodes.length;
    default:
      return 1;
  }
}
