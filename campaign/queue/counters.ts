import type { CoveragePoint } from '../../properties/coverage.js';
import type { PropertyId } from '../../scenarios/index.js';
import { BOUND_IDS } from '../../search/fault-model.js';
import { noTotals, type SearchTotals } from '../../search/search-totals.js';

/*
 * A tally as named whole numbers, which a server can add up by itself: the hash too, as its two halves.
 */

const HALF = 4294967296;

/** Those that are not 0. */
export function flattened({
  runs,
  events,
  steps,
  near,
  hash,
  exercised,
  strained,
  violating,
}: SearchTotals): Record<string, number> {
  const counters: Record<string, number> = {
    runs,
    events,
    steps,
    near,
    hashA: Number.parseInt(hash.slice(0, 8), 16),
    hashB: Number.parseInt(hash.slice(8), 16),
  };
  for (const [situation, count] of Object.entries(exercised)) counters[`exercised ${situation}`] = count;
  for (const bound of BOUND_IDS) {
    counters[`strained ${bound}`] = strained[bound].runs;
    counters[`atBound ${bound}`] = strained[bound].atBound;
  }
  for (const [property, count] of Object.entries(violating)) counters[`violating ${property}`] = count;
  return Object.fromEntries(Object.entries(counters).filter(([, count]) => count !== 0));
}

/** The tally of a search from sums of counters, each named with the index of its search. */
export function unflattened(sums: Readonly<Record<string, string>>, search: number): SearchTotals {
  const of = (name: string): number => Number(sums[`${search} ${name}`] ?? 0);
  const half = (name: string): string =>
    Number(BigInt(sums[`${search} ${name}`] ?? 0) % BigInt(HALF))
      .toString(16)
      .padStart(8, '0');
  const { exercised } = noTotals();
  for (const situation of Object.keys(exercised) as CoveragePoint[])
    exercised[situation] = of(`exercised ${situation}`);
  const prefix = `${search} violating `;
  const properties = Object.keys(sums).filter((name) => name.startsWith(prefix));
  return {
    runs: of('runs'),
    events: of('events'),
    steps: of('steps'),
    near: of('near'),
    hash: half('hashA') + half('hashB'),
    exercised,
    strained: {
      'clock-drift': { runs: of('strained clock-drift'), atBound: of('atBound clock-drift') },
      'clock-step': { runs: of('strained clock-step'), atBound: of('atBound clock-step') },
      'restart-delay': { runs: of('strained restart-delay'), atBound: of('atBound restart-delay') },
      'data-loss': { runs: of('strained data-loss'), atBound: of('atBound data-loss') },
      'write-delay': { runs: of('strained write-delay'), atBound: of('atBound write-delay') },
    },
    violating: Object.fromEntries(
      properties.map((name) => [name.slice(prefix.length) as PropertyId, Number(sums[name])]),
    ),
  };
}
