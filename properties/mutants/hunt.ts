import type { PropertyId } from '../../scenarios/index.js';
import { type CheckResult, check } from '../check.js';
import { MONITORED } from '../property-lists.js';
import { type Mutant, weatherFor } from './registry.js';

/** How hard planted bugs are hunted. */
export interface HuntOptions {
  /** Searches for each bug, every one from a seed of its own. Default 15. */
  readonly seeds?: number;
  /** Histories of one search at most; a search that catches nothing counts as so many. Default 10,000. */
  readonly runs?: number;
  /** CPU time used so far, ms. Default that of this process. */
  readonly cpuMs?: () => number;
  /** Ends the hunt with what it has. */
  readonly signal?: AbortSignal;
}

/** What came of the hunt for one planted bug. */
export interface Catch {
  readonly id: string;
  /** The property that gave it away most often, or `null` if it got away in half of the searches or more. */
  readonly caughtBy: PropertyId | null;
  /** Searches made, and those in which it was caught. */
  readonly searches: number;
  readonly caught: number;
  /** Histories up to the first catch, and CPU time: medians over the searches. */
  readonly historiesMedian: number;
  readonly cpuMsMedian: number;
  /** Events of the first counterexample when it is made small, or `null` if there is none. */
  readonly shrunkEvents: number | null;
}

export const HUNT_SEEDS = 15;
export const HUNT_RUNS = 10_000;

/** Hunts one planted bug with the default search. */
export async function hunt(mutant: Mutant, options: HuntOptions = {}): Promise<Catch> {
  const { seeds = HUNT_SEEDS, runs = HUNT_RUNS, cpuMs = ownCpuMs, signal } = options;
  const searches: { readonly result: CheckResult; readonly cpu: number }[] = [];
  for (let i = 0; i < seeds && !signal?.aborted; i++) {
    const began = cpuMs();
    const result = await searchFor(mutant, i, runs, false, signal);
    searches.push({ result, cpu: cpuMs() - began });
  }
  const caught = searches.filter(({ result }) => result.counterexample !== null);
  const first = searches.findIndex(({ result }) => result.counterexample !== null);
  const small = first < 0 ? null : (await searchFor(mutant, first, runs, true)).counterexample;
  return {
    id: mutant.id,
    caughtBy:
      2 * caught.length > searches.length
        ? mostFrequent(caught.flatMap(({ result }) => result.counterexample?.property ?? []))
        : null,
    searches: searches.length,
    caught: caught.length,
    historiesMedian: median(searches.map(({ result }) => (result.counterexample === null ? runs : result.runs))),
    cpuMsMedian: median(searches.map(({ cpu }) => Math.round(cpu * 10) / 10)),
    shrunkEvents: small?.events ?? null,
  };
}

function searchFor(
  mutant: Mutant,
  search: number,
  runs: number,
  shrink: boolean,
  signal?: AbortSignal,
): Promise<CheckResult> {
  return check({
    weather: weatherFor(mutant),
    // Fixed, and no two bugs have one in common.
    seed: `hunt ${mutant.id} ${search}`,
    runs,
    properties: MONITORED,
    shrink,
    ...(signal === undefined ? {} : { signal }),
  });
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
