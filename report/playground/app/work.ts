import type { PropertyId, Schedule } from '../../../scenarios/index.js';
import { COVERAGE_LABELS, firstUncovered } from '../../../search/coverage-labels.js';
import { type FailingRun, RangeSearch, recordOf } from '../../../search/range.js';
import { type SafetyMap, sweep, sweepPlanOf } from '../../../search/safety-map/index.js';
import { bodyOf, withBody } from '../../../search/schedule-body.js';
import { failsLike, soonestRestartUs } from '../../../search/shrinking/fails-like.js';
import { isolate } from '../../../search/shrinking/isolate.js';
import { reduce } from '../../../search/shrinking/reduce.js';
import { type PageSearch, pageSearchOf, type SearchTexts } from '../settings.js';

/*
 * What takes long, and is done in a worker: a search, and a map.
 */

/** What the worker is asked. */
export type Job =
  | { readonly kind: 'search'; readonly texts: SearchTexts }
  | { readonly kind: 'map'; readonly words: readonly string[] };

/** A failing run of a search. */
export interface Found {
  readonly kind: 'found';
  /** From 1. */
  readonly run: number;
  readonly of: number;
  readonly property: PropertyId;
  readonly schedule: Schedule;
  /** Whether it has been made small. */
  readonly isSmall: boolean;
}

/** What the worker says. */
export type Told =
  | { readonly kind: 'progress'; readonly done: number; readonly of: number }
  | Found
  | { readonly kind: 'passed'; readonly runs: number; readonly near: number; readonly reason: string | null }
  | { readonly kind: 'map'; readonly map: SafetyMap }
  | { readonly kind: 'problem'; readonly message: string };

type Tell = (told: Told) => void;

/** Runs between two looks at the clock, and how often progress is told, ms. */
const CHUNK = 16;
const PROGRESS_EVERY_MS = 100;
/** A grid that is quick to measure, and to look at. */
const ROOM = { across: 25, up: 17 };

/** Does a job, and reports its result. */
export async function work(job: Job, tell: Tell): Promise<void> {
  try {
    if (job.kind === 'search') search(pageSearchOf(job.texts), tell);
    else tell({ kind: 'map', map: await mapOf(job.words, tell) });
  } catch (error) {
    tell({ kind: 'problem', message: error instanceof Error ? error.message : String(error) });
  }
}

function mapOf(words: readonly string[], tell: Tell): Promise<SafetyMap> {
  return sweep(
    sweepPlanOf(words, () => ROOM),
    { onProgress: (done, of) => tell({ kind: 'progress', done, of }), pause: () => Promise.resolve() },
  );
}

function search({ plan, runs }: PageSearch, tell: Tell): void {
  const range = new RangeSearch(plan, 0, runs);
  let told = performance.now();
  while (!range.isOver) {
    range.advance(CHUNK);
    if (performance.now() - told < PROGRESS_EVERY_MS) continue;
    told = performance.now();
    tell({ kind: 'progress', done: range.runs, of: runs });
  }
  const [first] = range.found;
  if (first !== undefined) {
    found({ plan, runs }, first, tell);
    return;
  }
  const { exercised, near } = range.result();
  const never = firstUncovered(plan.faultModel, exercised);
  const reason = never === null ? null : `there were no ${COVERAGE_LABELS[never]}`;
  tell({ kind: 'passed', runs, near, reason });
}

function found({ plan, runs: of }: PageSearch, first: FailingRun, tell: Tell): void {
  const schedule = recordOf(plan, first);
  const { property } = first.violation;
  const about = { kind: 'found', run: first.run + 1, of, property } as const;
  tell({ ...about, schedule, isSmall: false });
  const { nodes, restartDelayUs, stretch } = plan.faultModel;
  const soonestUs = stretch['restart-delay'] > 1 ? soonestRestartUs(schedule.faults) : 0;
  const fails = failsLike(schedule, property, { nodes, leastRestartUs: restartDelayUs ?? soonestUs });
  const small = isolate(reduce(withBody(schedule, bodyOf(schedule)), fails), fails);
  tell({ ...about, schedule: small, isSmall: true });
}
