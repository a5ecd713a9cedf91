import { InputError } from '../scenarios/index.js';
import { noTotals, type SearchTotals, sumOf } from '../search/search-totals.js';
import { formatCount } from '../text/format.js';
import { CampaignRanges, type CampaignSpec, specHash } from './spec.js';
import { type Failure, firstOf, type UnitResult } from './unit.js';

/** Ranges by index from the first to the second number, without the second. */
type Span = readonly [from: number, to: number];

/** What came of some ranges of a campaign; parts of the same campaign add up. Plain data, and the file of a shard. */
export interface CampaignPart {
  readonly schema: 'lockstep.campaign-part/1';
  readonly spec: CampaignSpec;
  /** The ranges that it has, ascending. */
  readonly done: readonly Span[];
  /** What each search came to. */
  readonly tallies: readonly SearchTotals[];
  /** One for each shape, the earliest; by search and run. */
  readonly failures: readonly Failure[];
}

/** A campaign of which nothing has been made. */
export function noPart(spec: CampaignSpec): CampaignPart {
  const tallies = spec.searches.map(noTotals);
  return { schema: 'lockstep.campaign-part/1', spec, done: [], tallies, failures: [] };
}

/** A part of one range. */
export function partOf(spec: CampaignSpec, { index, search, tally, failures }: UnitResult): CampaignPart {
  return {
    ...noPart(spec),
    done: [[index, index + 1]],
    tallies: spec.searches.map((_, i) => (i === search ? tally : noTotals())),
    failures,
  };
}

/**
 * Adds parts of one campaign up.
 *
 * @throws InputError if they are of different campaigns or engines, or a range is in both.
 */
export function mergeParts(a: CampaignPart, b: CampaignPart): CampaignPart {
  if (a.spec.engine !== b.spec.engine) {
    throw new InputError(
      `these parts were made by different engines (${a.spec.engine} and ${b.spec.engine}); make them with the same build`,
    );
  }
  if (specHash(a.spec) !== specHash(b.spec)) throw new InputError('these parts are of different campaigns');
  return {
    ...a,
    done: joined([...a.done, ...b.done]),
    tallies: a.tallies.map((tally, i) => sumOf(tally, b.tallies[i] ?? noTotals())),
    failures: firstOfEachShape([...a.failures, ...b.failures]),
  };
}

/** Ranges that a part has. */
export function rangesDone({ done }: CampaignPart): number {
  return done.reduce((sum, [from, to]) => sum + to - from, 0);
}

/** Indices of ranges that a campaign has and a part has not. */
export function missingFrom({ spec, done }: CampaignPart): Span[] {
  const missing: Span[] = [];
  let at = 0;
  for (const [from, to] of [...done, [new CampaignRanges(spec).count, 0] as const]) {
    if (from > at) missing.push([at, from]);
    at = to;
  }
  return missing;
}

/** All searches together. */
export function totalOf({ tallies }: CampaignPart): SearchTotals {
  return tallies.reduce(sumOf, noTotals());
}

/** Runs that violated something. */
export function violatingRuns({ violating }: SearchTotals): number {
  return Object.values(violating).reduce((sum, runs) => sum + runs, 0);
}

/** Violations in a million runs, for people; a dash where nothing has run. */
export function perMillionWords(violating: number, runs: number): string {
  if (runs === 0) return '–';
  const rate = (violating / runs) * 1_000_000;
  return rate >= 100 || rate === 0 ? formatCount(Math.round(rate)) : rate.toPrecision(2);
}

/** One failure of each shape: that of the first run. */
function firstOfEachShape(failures: readonly Failure[]): Failure[] {
  const kept = new Map<string, Failure>();
  for (const failure of failures) {
    const other = kept.get(failure.shape);
    kept.set(failure.shape, other === undefined ? failure : firstOf(other, failure));
  }
  return [...kept.values()].sort((x, y) => x.search - y.search || x.run - y.run);
}

/** Ranges by their indices as spans, ascending. */
export function spansOf(indices: readonly number[]): Span[] {
  return joined(indices.map((index) => [index, index + 1]));
}

function joined(parts: readonly Span[]): Span[] {
  const spans: [number, number][] = [];
  for (const [from, to] of [...parts].sort((x, y) => x[0] - y[0])) {
    const last = spans[spans.length - 1];
    if (last !== undefined && from < last[1]) throw new InputError(`range ${from} is in two of these parts`);
    if (last !== undefined && from === last[1]) last[1] = to;
    else spans.push([from, to]);
  }
  return spans;
}
