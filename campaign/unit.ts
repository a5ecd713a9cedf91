import { judge } from '../properties/judge.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import { type FailingRun, recordOf, type SearchPlan, searchRange } from '../search/range.js';
import type { SearchTotals } from '../search/search-totals.js';
import { shrink } from '../search/shrink.js';
import { signatureOf } from './signature.js';
import type { CampaignRange } from './spec.js';

/** A failure, made small. */
export interface Failure {
  /** What tells it from others; see {@link signatureOf}. */
  readonly shape: string;
  readonly property: PropertyId;
  /** Where it was found: the index of the search, and the run, from 0. */
  readonly search: number;
  readonly run: number;
  /** Events of the small schedule. */
  readonly events: number;
  readonly schedule: Schedule;
  /** Of a library: the failure in words, since it takes the library to tell; REPLAY stands for the command. */
  readonly text?: string;
}

/** What came of one range. The same plan and range come to the same, wherever it is made. */
export interface UnitResult {
  readonly index: number;
  readonly search: number;
  readonly tally: SearchTotals;
  /** Of the first findings of each property, one for each shape. */
  readonly failures: readonly Failure[];
}

/** Findings of one property that are made small in a range; the others are counted. */
const SHRUNK = 2;

/** Makes a whole range, and what it finds small. */
export function runUnit(plan: SearchPlan, { index, search, from, to }: CampaignRange): UnitResult {
  const { found, from: _, to: __, ...tally } = searchRange(plan, from, to, Number.POSITIVE_INFINITY);
  const failures = new Map<string, Failure>();
  for (const finding of firstOfEach(found)) {
    const failure = failureOf(plan, search, finding);
    if (!failures.has(failure.shape)) failures.set(failure.shape, failure);
  }
  return { index, search, tally, failures: [...failures.values()] };
}

function firstOfEach(found: readonly FailingRun[]): FailingRun[] {
  const counts = new Map<PropertyId, number>();
  return found.filter(({ violation: { property } }) => {
    const count = (counts.get(property) ?? 0) + 1;
    counts.set(property, count);
    return count <= SHRUNK;
  });
}

function failureOf(plan: SearchPlan, search: number, finding: FailingRun): Failure {
  const {
    run,
    violation: { property },
  } = finding;
  const { schedule } = shrink(recordOf(plan, finding), property);
  const { events } = judge(schedule, [property]).run;
  return { shape: signatureOf(property, schedule), property, search, run, events, schedule };
}

/** Which of two failures of one shape is kept: the one that was drawn first, so that it matters not who found it. */
export function firstOf(a: Failure, b: Failure): Failure {
  return a.search < b.search || (a.search === b.search && a.run <= b.run) ? a : b;
}
