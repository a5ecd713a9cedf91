import type { Counts, CoveragePoint } from '../properties/coverage.js';
import type { PropertyId, Schedule, Verdict } from '../scenarios/index.js';
import { type Counterexample, counterexampleOf } from './counterexample.js';
import { COVERAGE_LABELS, firstUncovered } from './coverage-labels.js';
import type { FaultModel } from './fault-model.js';
import { type FailingRun, RangeSearch, recordOf, type SearchPlan } from './range.js';
import { PooledRanges, type SearchPool } from './search-pool.js';
import { type BoundCoverage, noTotals, type SearchTotals, sumOf } from './search-totals.js';
import { type Deployment, soonestRestartUs } from './shrinking/fails-like.js';
import type { StrategyName } from './strategy-info.js';

/** A search, and when it ends. */
export interface CheckOptions {
  readonly faultModel: FaultModel;
  /** Any string. */
  readonly seed: string;
  /** How it draws. Default `combination`. */
  readonly strategy?: StrategyName;
  /** Histories to draw; the search ends earlier at its first violation. */
  readonly runs: number;
  /** Ends the search after this many milliseconds of `clock`, if given. */
  readonly budgetMs?: number;
  /** Properties that count as found. */
  readonly properties: readonly PropertyId[];
  /** Further properties, which count only in runs that keep all assumptions of the lock. Default: none. */
  readonly insideOnly?: readonly PropertyId[];
  /** Whether to make a found schedule small. Default `true`. */
  readonly shrink?: boolean;
  /** Whether a schedule that is made small stays on the nodes, and with the restart delays, that were asked about. Default `false`. */
  readonly keepsDeployment?: boolean;
  /**
   * Who helps where the search takes longer than half a second and its runs do not depend on each other. What is found,
   * counted and hashed is the same with and without. Default: nobody.
   */
  readonly pool?: () => Promise<SearchPool>;
  /** Milliseconds, for the budget and for progress. Default `performance.now`. */
  readonly clock?: () => number;
  /** Called about ten times a second. */
  readonly onProgress?: (progress: CheckProgress) => void;
  /** Ends the search with what it has. */
  readonly signal?: AbortSignal;
}

/** How far a search is. */
export interface CheckProgress {
  readonly phase: 'searching' | 'shrinking';
  readonly runs: number;
  readonly of: number;
  readonly elapsedMs: number;
}

/** What a search came to. */
export interface CheckResult {
  readonly verdict: Verdict;
  /** Why it is inconclusive, if it is. */
  readonly reason: string | null;
  readonly runs: number;
  readonly events: number;
  readonly steps: number;
  readonly seed: string;
  readonly strategy: StrategyName;
  /** Of the traces of all runs; see {@link SearchTotals}. */
  readonly hash: string;
  readonly exercised: Counts;
  readonly notHit: readonly CoveragePoint[];
  readonly strained: BoundCoverage;
  readonly near: number;
  readonly elapsedMs: number;
  /** How many searched at a time, at most. */
  readonly workers: number;
  readonly interrupted: boolean;
  readonly counterexample: Counterexample | null;
}

/** Runs between two looks at the clock. */
const CHUNK = 64;
const PROGRESS_EVERY_MS = 100;
/** How long a search goes on alone: a short one would only wait for its helpers. */
const ALONE_MS = 500;

/**
 * Searches for a violation: draws histories at full speed, writes down the first that fails, and shrinks it. Gives way
 * to the event loop ten times a second, so that it can be watched and stopped.
 */
export async function check(options: CheckOptions): Promise<CheckResult> {
  const search = new Search(options);
  await search.alone();
  await search.together();
  await search.shrinking();
  return search.result();
}

class Search {
  private readonly options: CheckOptions;
  private readonly plan: SearchPlan;
  private readonly clock: () => number;
  private readonly began: number;
  private readonly range: RangeSearch;
  /** All but what `range` is at. */
  private tally: SearchTotals = noTotals();
  private failing: FailingRun | null = null;
  private workers = 1;
  private told: number;

  constructor(options: CheckOptions) {
    const { faultModel, seed, strategy = 'combination', properties, insideOnly = [], runs } = options;
    this.options = options;
    this.plan = { faultModel, seed, strategy, properties, insideOnly };
    this.clock = options.clock ?? (() => performance.now());
    this.began = this.clock();
    this.told = this.began;
    this.range = new RangeSearch(this.plan, 0, runs);
  }

  /** Searches in this thread: to the end, or until it is worth while to have help. */
  async alone(): Promise<void> {
    while (!this.range.isOver && !this.isOver() && !this.isHelpWorthWhile()) {
      this.range.advance(CHUNK);
      if (this.clock() - this.told >= PROGRESS_EVERY_MS) await this.pause(this.range.runs);
    }
    const { found, ...tally } = this.range.result();
    this.tally = sumOf(this.tally, tally);
    this.failing = found[0] ?? null;
  }

  /** Goes on with the pool, if there is one and something is left to do. */
  async together(): Promise<void> {
    const { pool: makeCrew, runs } = this.options;
    if (makeCrew === undefined || this.isOver() || this.tally.runs >= runs) return;
    const pool = await makeCrew();
    this.workers = pool.size;
    try {
      const ranges = new PooledRanges(pool, this.plan, this.tally.runs, runs);
      for (let head = ranges.head(); head !== null && !this.isOver(); head = ranges.head()) {
        const range = await orNothingYet(head, PROGRESS_EVERY_MS);
        if (range !== null) {
          ranges.shift();
          this.tally = sumOf(this.tally, range);
          this.failing = range.found[0] ?? null;
        }
        if (this.clock() - this.told >= PROGRESS_EVERY_MS) await this.pause(this.tally.runs);
      }
    } finally {
      await pool.close();
    }
  }

  /** Tells that the counterexample is about to be made small, which blocks. */
  async shrinking(): Promise<void> {
    if (this.failing !== null && this.options.shrink !== false) await this.pause(this.tally.runs, 'shrinking');
  }

  private isHelpWorthWhile(): boolean {
    if (this.options.pool === undefined) return false;
    const elapsed = this.clock() - this.began;
    if (elapsed < ALONE_MS) return false;
    const { runs } = this.range;
    return ((this.options.runs - runs) / runs) * elapsed > ALONE_MS;
  }

  private isOver(): boolean {
    const { budgetMs, signal } = this.options;
    if (this.failing !== null || signal?.aborted) return true;
    return budgetMs !== undefined && this.clock() - this.began >= budgetMs;
  }

  private async pause(runs: number, phase: CheckProgress['phase'] = 'searching'): Promise<void> {
    this.options.onProgress?.({ phase, runs, of: this.options.runs, elapsedMs: this.clock() - this.began });
    await new Promise((resolve) => setImmediate(resolve));
    this.told = this.clock();
  }

  result(): CheckResult {
    const { runs, events, steps, hash, exercised, strained, near } = this.tally;
    const { seed, strategy } = this.plan;
    const counterexample = this.counterexample();
    const reason = counterexample === null ? this.whyInconclusive() : null;
    return {
      verdict: counterexample !== null ? 'violated' : reason !== null ? 'inconclusive' : 'passed',
      reason,
      runs,
      events,
      steps,
      seed,
      strategy,
      hash,
      exercised,
      notHit: (Object.keys(COVERAGE_LABELS) as CoveragePoint[]).filter((it) => exercised[it] === 0),
      strained,
      near,
      elapsedMs: this.clock() - this.began,
      workers: this.workers,
      interrupted: this.options.signal?.aborted ?? false,
      counterexample,
    };
  }

  /** A pass means nothing where nothing was claimed, or where a fault that was asked for never met a claim. */
  private whyInconclusive(): string | null {
    if (this.tally.runs === 0) return 'no history was drawn';
    const never = firstUncovered(this.plan.faultModel, this.tally.exercised);
    return never === null ? null : `there were no ${COVERAGE_LABELS[never]}`;
  }

  private counterexample(): Counterexample | null {
    const { failing, plan } = this;
    if (failing === null) return null;
    const found = recordOf(plan, failing);
    const { shrink, keepsDeployment = false } = this.options;
    return counterexampleOf(failing, found, shrink !== false, keepsDeployment ? this.deployment(found) : null);
  }

  /** Of a search past the bound of restarts, those of what was found: sooner ones would be farther past it. */
  private deployment(found: Schedule): Deployment {
    const { nodes, restartDelayUs, stretch } = this.plan.faultModel;
    const soonestUs = stretch['restart-delay'] > 1 ? soonestRestartUs(found.faults) : 0;
    return { nodes, leastRestartUs: restartDelayUs ?? soonestUs };
  }
}

/** What is there within `ms`, or `null`. */
async function orNothingYet<T>(it: Promise<T>, ms: number): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), ms);
  });
  try {
    return await Promise.race([it, late]);
  } finally {
    clearTimeout(timer);
  }
}
