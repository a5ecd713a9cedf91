import type { PropertyId, PropertyKind, Schedule, Verdict } from '../scenarios/index.js';
import { RollingHash, Streams } from '../sim/index.js';
import type { Assumption } from './assumptions.js';
import { type Counts, missed, noCounts, SITUATIONS, type Situation } from './coverage.js';
import { judge } from './judge.js';
import type { Draws } from './search/draws.js';
import { STRATEGIES } from './search/strategy.js';
import type { StrategyName } from './search/strategy-info.js';
import type { Strain, Weather } from './search/weather.js';
import { shrink } from './shrink.js';
import { type Explained, explain } from './shrinking/explain.js';
import type { Violation } from './violation.js';

/** A search, and when it ends. */
export interface CheckOptions {
  readonly weather: Weather;
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
  /** Whether to make a found schedule small. Default `true`. */
  readonly shrink?: boolean;
  /** Milliseconds, for the budget and for progress. Default `performance.now`. */
  readonly clock?: () => number;
  /** Called about ten times a second. */
  readonly onProgress?: (progress: CheckProgress) => void;
  /** Ends the search with what it has. */
  readonly signal?: AbortSignal;
}

export interface CheckProgress {
  readonly phase: 'searching' | 'shrinking';
  readonly runs: number;
  readonly of: number;
  readonly elapsedMs: number;
}

/** A failing schedule, small, with what it breaks. */
export interface Counterexample {
  readonly property: PropertyId;
  readonly kind: PropertyKind;
  readonly run: number;
  /** As found, and as shrunk. */
  readonly found: Schedule;
  readonly schedule: Schedule;
  readonly violation: Violation;
  /** Events of the run as found and as shrunk. */
  readonly foundEvents: number;
  readonly events: number;
  readonly hash: string;
  readonly assumptionsBroken: readonly Assumption[];
  /** What comes of the small schedule without each of its pieces; empty if it was not made small. */
  readonly explained: readonly Explained[];
}

export interface CheckResult {
  readonly verdict: Verdict;
  /** Why it is inconclusive, if it is. */
  readonly reason: string | null;
  readonly runs: number;
  readonly events: number;
  readonly steps: number;
  readonly seed: string;
  readonly strategy: StrategyName;
  /** Of the traces of all runs, in order. */
  readonly hash: string;
  readonly exercised: Counts;
  readonly notHit: readonly Situation[];
  /** Runs that strained each assumption, and of those the ones within 1 % of its bound. */
  readonly strained: Readonly<Record<Strain, { readonly runs: number; readonly atBound: number }>>;
  /** Runs that came within one millisecond or one vote of violating validity or action in belief. */
  readonly near: number;
  readonly elapsedMs: number;
  readonly interrupted: boolean;
  readonly counterexample: Counterexample | null;
}

/** Runs between two looks at the clock. */
const CHUNK = 64;
const PROGRESS_EVERY_MS = 100;
const AT_BOUND = 0.99;

/**
 * Searches for a violation: draws histories at full speed, writes down the first that fails, and shrinks it. Gives way
 * to the event loop ten times a second, so that it can be watched and stopped.
 */
export async function check(options: CheckOptions): Promise<CheckResult> {
  const clock = options.clock ?? (() => performance.now());
  const search = new Search(options, clock);
  let told = clock();
  while (!search.isOver()) {
    search.advance(CHUNK);
    if (clock() - told < PROGRESS_EVERY_MS) continue;
    options.onProgress?.(search.progress('searching'));
    await new Promise((resolve) => setImmediate(resolve));
    told = clock();
  }
  if (search.failing !== null && options.shrink !== false) {
    options.onProgress?.(search.progress('shrinking'));
    await new Promise((resolve) => setImmediate(resolve));
  }
  return search.result();
}

class Search {
  /** The first run that violated a property, if any. */
  failing: { readonly run: number; readonly violation: Violation } | null = null;
  private readonly options: CheckOptions;
  private readonly clock: () => number;
  private readonly began: number;
  private readonly draws: Draws;
  private readonly hash = new RollingHash();
  private readonly counts = noCounts();
  private readonly strained = {
    rate: { runs: 0, atBound: 0 },
    step: { runs: 0, atBound: 0 },
    restart: { runs: 0, atBound: 0 },
    forget: { runs: 0, atBound: 0 },
    late: { runs: 0, atBound: 0 },
  };
  private near = 0;
  private runs = 0;
  private events = 0;
  private steps = 0;

  constructor(options: CheckOptions, clock: () => number) {
    this.options = options;
    this.clock = clock;
    this.began = clock();
    this.draws = STRATEGIES[options.strategy ?? 'combination'](options.weather, new Streams(options.seed));
  }

  isOver(): boolean {
    const { runs, budgetMs, signal } = this.options;
    if (this.failing !== null || this.runs >= runs || signal?.aborted) return true;
    return budgetMs !== undefined && this.clock() - this.began >= budgetMs;
  }

  advance(most: number): void {
    const { properties, runs } = this.options;
    for (let i = 0; i < most && this.runs < runs && this.failing === null; i++) {
      const run = this.runs++;
      const { world, monitors, situation, adversary } = this.draws.next(properties, this.counts);
      if (monitors.closeness.isNear) this.near++;
      this.events += world.events;
      for (const client of world.clients) this.steps += client.steps;
      this.hash.add(world.chronicle.trace.value());
      if (situation.strain !== null && adversary.strained) {
        const strained = this.strained[situation.strain];
        strained.runs++;
        if (situation.nearness >= AT_BOUND) strained.atBound++;
      }
      const violation = monitors.violations.find((it) => properties.includes(it.property));
      if (violation !== undefined) this.failing = { run, violation };
    }
  }

  progress(phase: CheckProgress['phase']): CheckProgress {
    return { phase, runs: this.runs, of: this.options.runs, elapsedMs: this.clock() - this.began };
  }

  result(): CheckResult {
    const counterexample = this.counterexample();
    const notHit = (Object.keys(SITUATIONS) as Situation[]).filter((it) => this.counts[it] === 0);
    const reason = counterexample === null ? this.whyInconclusive() : null;
    return {
      verdict: counterexample !== null ? 'violated' : reason !== null ? 'inconclusive' : 'passed',
      reason,
      runs: this.runs,
      events: this.events,
      steps: this.steps,
      seed: this.options.seed,
      strategy: this.options.strategy ?? 'combination',
      hash: this.hash.digest(),
      exercised: this.counts,
      notHit,
      strained: this.strained,
      near: this.near,
      elapsedMs: this.clock() - this.began,
      interrupted: this.options.signal?.aborted ?? false,
      counterexample,
    };
  }

  /** A pass means nothing where nothing was claimed, or where a fault that was asked for never met a claim. */
  private whyInconclusive(): string | null {
    if (this.runs === 0) return 'no history was drawn';
    const never = missed(this.options.weather, this.counts);
    return never === null ? null : `there were no ${SITUATIONS[never]}`;
  }

  private counterexample(): Counterexample | null {
    const { failing, options } = this;
    if (failing === null) return null;
    const { property, kind } = failing.violation;
    const { schedule: found } = this.draws.record();
    const schedule = options.shrink === false ? found : shrink(found, property).schedule;
    const judgement = judge(schedule, [property]);
    return {
      property,
      kind,
      run: failing.run,
      found,
      schedule,
      violation: judgement.violations.find((it) => it.property === property) ?? failing.violation,
      foundEvents: judge(found).run.events,
      events: judgement.run.events,
      hash: judgement.run.hash,
      assumptionsBroken: judgement.assumptionsBroken,
      explained: options.shrink === false ? [] : explain(schedule, property),
    };
  }
}
