import { type Counts, type CoveragePoint, noCounts } from '../properties/coverage.js';
import type { PropertyId } from '../scenarios/index.js';
import { RunsHash } from '../sim/index.js';
import { BOUND_IDS, type BoundId } from './fault-model.js';

/** Runs that strained each assumption, and of those the ones within 1 % of its bound. */
export type BoundCoverage = Readonly<Record<BoundId, { readonly runs: number; readonly atBound: number }>>;

/**
 * What the runs of a search, or some of them, came to. Plain data: parts that were made elsewhere add up to the whole, in
 * any order.
 */
export interface SearchTotals {
  readonly runs: number;
  readonly events: number;
  /** Steps of the lock. */
  readonly steps: number;
  /** Of the traces of all runs, whatever their order; see {@link RunsHash}. */
  readonly hash: string;
  readonly exercised: Counts;
  readonly strained: BoundCoverage;
  /** Runs that came within one millisecond or one vote of violating `quorum-backed` or `no-stale-write`. */
  readonly near: number;
  /** Runs by the first property that they violated, of those that count as found. */
  readonly violating: Readonly<Partial<Record<PropertyId, number>>>;
}

/** No runs at all. */
export function noTotals(): SearchTotals {
  return {
    runs: 0,
    events: 0,
    steps: 0,
    hash: new RunsHash().digest(),
    exercised: noCounts(),
    strained: noBoundCoverage(),
    near: 0,
    violating: {},
  };
}

/** The runs of both, of which none may be in the other. */
export function sumOf(a: SearchTotals, b: SearchTotals): SearchTotals {
  const hash = new RunsHash();
  hash.merge(a.hash);
  hash.merge(b.hash);
  const exercised = { ...a.exercised };
  for (const situation of Object.keys(exercised) as CoveragePoint[]) exercised[situation] += b.exercised[situation];
  const violating: Partial<Record<PropertyId, number>> = { ...a.violating };
  for (const [property, runs = 0] of Object.entries(b.violating) as [PropertyId, number][]) {
    violating[property] = (violating[property] ?? 0) + runs;
  }
  return {
    runs: a.runs + b.runs,
    events: a.events + b.events,
    steps: a.steps + b.steps,
    hash: hash.digest(),
    exercised,
    strained: byBound((bound) => ({
      runs: a.strained[bound].runs + b.strained[bound].runs,
      atBound: a.strained[bound].atBound + b.strained[bound].atBound,
    })),
    near: a.near + b.near,
    violating,
  };
}

/** Counters that start from nothing. */
export function noBoundCoverage(): Record<BoundId, { runs: number; atBound: number }> {
  return byBound(() => ({ runs: 0, atBound: 0 }));
}

function byBound<T>(of: (bound: BoundId) => T): Record<BoundId, T> {
  return Object.fromEntries(BOUND_IDS.map((bound) => [bound, of(bound)])) as Record<BoundId, T>;
}
