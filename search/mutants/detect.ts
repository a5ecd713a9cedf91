import { SEARCHED } from '../../properties/property-lists.js';
import type { PropertyId } from '../../scenarios/index.js';
import { type CheckOptions, type CheckResult, check } from '../check.js';
import type { StrategyName } from '../strategy-info.js';
import { isHeldOut } from './held-out.js';
import { faultModelFor, type Mutant } from './registry.js';

/** How hard planted bugs are hunted. */
interface HuntOptions {
  /** Searches for each bug, every one from a seed of its own. Default 15. */
  readonly seeds?: number;
  /** Histories of one search at most; a search that catches nothing counts as so many. Default 10,000. */
  readonly runs?: number;
  /** Default `combination`. */
  readonly strategy?: StrategyName;
  /** Whether to make the first counterexample small. Default `true`. */
  readonly shrink?: boolean;
  /** CPU time used so far, ms. Default that of this process. */
  readonly cpuMs?: () => number;
  /** Ends the hunt with what it has. */
  readonly signal?: AbortSignal;
}

/** What came of the hunt for one planted bug. */
export interface Detection {
  readonly id: string;
  readonly strategy: StrategyName;
  /** One of those that nobody may look at when the search is tuned. */
  readonly heldOut: boolean;
  /** The property that gave it away most often, or `null` if it got away in half of the searches or more. */
  readonly caughtBy: PropertyId | null;
  /** Searches made, and those in which it was caught. */
  readonly searches: number;
  readonly caught: number;
  /** Histories up to the first catch, and CPU time: medians over the searches. */
  readonly historiesMedian: number;
  readonly cpuMsMedian: number;
  /** CPU time of the first search, and of all of them; without what makes the counterexample small. */
  readonly cpuMsFirst: number;
  readonly cpuMsAll: number;
  /** Events of the first counterexample when it is made small, or `null` if there is none. */
  readonly shrunkEvents: number | null;
}

/** Searches for each planted bug; the median of what they take counts. */
export const DETECTION_SEEDS = 15;

/** Schedules at which a search gives up, which count where it found nothing. */
export const DETECTION_RUNS = 10_000;

/** Hunts one planted bug. */
export async function detectMutant(mutant: Mutant, options: HuntOptions = {}): Promise<Detection> {
  const {
    seeds = DETECTION_SEEDS,
    runs = DETECTION_RUNS,
    strategy = 'combination',
    cpuMs = ownCpuMs,
    signal,
  } = options;
  const searches: { readonly result: CheckResult; readonly cpu: number }[] = [];
  for (let i = 0; i < seeds && !signal?.aborted; i++) {
    const began = cpuMs();
    const result = await searchFor(mutant, i, { runs, strategy, shrink: false, ...(signal && { signal }) });
    // One that was stopped says nothing.
    if (result.interrupted) break;
    searches.push({ result, cpu: cpuMs() - began });
  }
  const caught = searches.filter(({ result }) => result.counterexample !== null);
  const first = searches.findIndex(({ result }) => result.counterexample !== null);
  const isSmallWanted = first >= 0 && options.shrink !== false;
  const small = isSmallWanted ? await searchFor(mutant, first, { runs, strategy, shrink: true }) : null;
  return {
    id: mutant.id,
    strategy,
    heldOut: isHeldOut(mutant.id),
    caughtBy:
      2 * caught.length > searches.length
        ? mostFrequent(caught.flatMap(({ result }) => result.counterexample?.property ?? []))
        : null,
    searches: searches.length,
    caught: caught.length,
    historiesMedian: median(searches.map(({ result }) => (result.counterexample === null ? runs : result.runs))),
    cpuMsMedian: tenths(median(searches.map(({ cpu }) => cpu))),
    cpuMsFirst: tenths(searches[0]?.cpu ?? 0),
    cpuMsAll: tenths(searches.reduce((sum, { cpu }) => sum + cpu, 0)),
    shrunkEvents: small?.counterexample?.events ?? null,
  };
}

type SearchOptions = Pick<CheckOptions, 'runs' | 'strategy' | 'shrink' | 'signal'>;

function searchFor(mutant: Mutant, search: number, options: SearchOptions): Promise<CheckResult> {
  // The seeds are fixed, and no two bugs have one in common.
  return check({
    ...options,
    faultModel: faultModelFor(mutant),
    seed: `hunt ${mutant.id} ${search}`,
    properties: mutant.by ?? SEARCHED,
  });
}

function tenths(value: number): number {
  return Math.round(value * 10) / 10;
}

function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function mostFrequent<T>(values: readonly T[]): T | null {
  const counts = new Map<T, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  let best: T | null = null;
  for (const [value, count] of counts) if (best === null || count > (counts.get(best) ?? 0)) best = value;
  return best;
}
