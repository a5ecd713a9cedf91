import { createHash } from 'node:crypto';
import type { FaultClass } from '../libraries/search/fault-classes.js';
import type { LibraryRef } from '../libraries/test-library.js';
import type { SearchPlan } from '../search/range.js';

/** A search with a library as it is, instead of the lock of `core`. Plain data. */
export interface LibraryPlan {
  readonly library: LibraryRef;
  /** What is done to it. */
  readonly faults: FaultClass;
  /** Any string. */
  readonly seed: string;
}

/** One search of a campaign, and its share of the runs. */
export interface CampaignSearch {
  /** What it is told by: a policy or a library, a class of faults. */
  readonly name: string;
  /** Its share against the others, a whole number from 1. */
  readonly weight: number;
  readonly plan: SearchPlan | LibraryPlan;
}

/** What a campaign is to do. Plain data: the same for all that take part. */
export interface CampaignSpec {
  readonly schema: 'lockstep.campaign/1';
  readonly searches: readonly [CampaignSearch, ...CampaignSearch[]];
  /** Runs of all searches together. */
  readonly runs: number;
  /** Runs of one range, which is made in one piece by one worker. */
  readonly rangeRuns: number;
  /** It is over after this, ms, if it has such an end. */
  readonly budgetMs: number | null;
  /** Findings after which it is over, if it has such an end. */
  readonly stopAfter: number | null;
  /** Of the engine that has to make the runs: see {@link engineHash}. */
  readonly engine: string;
}

/** One range of a campaign: runs of one of its searches from `from` to `to`, without `to`. */
export interface CampaignRange {
  /** Its place among all ranges, from 0. */
  readonly index: number;
  /** Index of the search. */
  readonly search: number;
  readonly from: number;
  readonly to: number;
}

/** Whether a search is one of a library. */
export function isLibrary(plan: CampaignSearch['plan']): plan is LibraryPlan {
  return 'library' in plan;
}

/** The libraries of a campaign. */
export function librariesOf({ searches }: Pick<CampaignSpec, 'searches'>): LibraryRef[] {
  return searches.flatMap(({ plan }) => (isLibrary(plan) ? [plan.library] : []));
}

/** The ranges of a campaign: searches take turns by weight, each with its runs in order. */
export class CampaignRanges {
  readonly count: number;
  private readonly spec: CampaignSpec;
  /** One turn of all searches: whose each place is, and how many of the same were before it. */
  private readonly turn: readonly { readonly search: number; readonly before: number }[];

  constructor(spec: CampaignSpec) {
    this.spec = spec;
    this.count = Math.ceil(spec.runs / spec.rangeRuns);
    this.turn = turnOf(spec.searches.map(({ weight }) => weight));
  }

  at(index: number): CampaignRange {
    const { rangeRuns, runs, searches } = this.spec;
    const { search, before } = this.turn[index % this.turn.length] ?? { search: 0, before: 0 };
    const weight = searches[search]?.weight ?? 1;
    const from = (Math.floor(index / this.turn.length) * weight + before) * rangeRuns;
    // The last range has what is left.
    return { index, search, from, to: from + Math.min(rangeRuns, runs - index * rangeRuns) };
  }
}

/** Who is most behind its share goes next. */
function turnOf(weights: readonly number[]): { search: number; before: number }[] {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const due = weights.map(() => 0);
  const had = weights.map(() => 0);
  return Array.from({ length: total }, () => {
    weights.forEach((weight, i) => {
      due[i] = (due[i] ?? 0) + weight;
    });
    const search = due.indexOf(Math.max(...due));
    due[search] = (due[search] ?? 0) - total;
    const before = had[search] ?? 0;
    had[search] = before + 1;
    return { search, before };
  });
}

/** Names a spec by what it says: equal specs are the same campaign. */
export function specHash(spec: CampaignSpec): string {
  return createHash('sha256').update(JSON.stringify(spec)).digest('hex').slice(0, 16);
}
