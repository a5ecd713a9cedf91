import { type Assumption, assumptions } from '../properties/assumptions.js';
import { noCounts } from '../properties/coverage.js';
import type { Violation } from '../properties/violation.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import { RandomStreams, RunsHash } from '../sim/index.js';
import type { FaultModel } from './fault-model.js';
import { RunGenerator, recordRun } from './generated-run.js';
import type { RunConfig } from './run-config.js';
import { noBoundCoverage, type SearchTotals } from './search-totals.js';
import { STRATEGY_INFO, type StrategyName } from './strategy-info.js';

/** What decides which runs a search makes, and what counts as found. Plain data. */
export interface SearchPlan {
  readonly faultModel: FaultModel;
  /** Any string. */
  readonly seed: string;
  readonly strategy: StrategyName;
  /** Properties that count as found. */
  readonly properties: readonly PropertyId[];
  /** Further properties, which count only in runs that keep all assumptions of the lock. Default: none. */
  readonly insideOnly?: readonly PropertyId[];
}

/** A run that violates a property, from 0. */
export interface FailingRun {
  readonly run: number;
  readonly violation: Violation;
}

/** What came of the runs from `from` to `to`, without `to`. */
export interface RangeResult extends SearchTotals {
  readonly from: number;
  /** The end of what was made, which is the end of the range unless it was cut off or had found enough. */
  readonly to: number;
  /** The first findings of each property, in the order of runs. */
  readonly found: readonly FailingRun[];
}

/** Findings of one property that a range keeps; the others are counted. */
const KEPT = 5;
/** Share of a bound from which on a run counts as near to it. */
const AT_BOUND = 0.99;

/** Makes a range of a search, step by step. */
export class RangeSearch {
  readonly found: FailingRun[] = [];
  private readonly plan: SearchPlan;
  private readonly from: number;
  private readonly to: number;
  private readonly stopAfter: number;
  private readonly streams: RandomStreams;
  private readonly generator = new RunGenerator();
  private readonly hash = new RunsHash();
  private readonly exercised = noCounts();
  private readonly strained = noBoundCoverage();
  private readonly violating: Partial<Record<PropertyId, number>> = {};
  private findings = 0;
  private next: number;
  private near = 0;
  private events = 0;
  private steps = 0;

  /** @param stopAfter Findings after which the range ends. */
  constructor(plan: SearchPlan, from: number, to: number, stopAfter = 1) {
    this.plan = plan;
    this.from = from;
    this.next = from;
    this.to = to;
    this.stopAfter = stopAfter;
    this.streams = new RandomStreams(plan.seed);
  }

  get isOver(): boolean {
    return this.next >= this.to || this.findings >= this.stopAfter;
  }

  get runs(): number {
    return this.next - this.from;
  }

  /** Makes `most` further runs, or those that are left. */
  advance(most: number): void {
    const { faultModel, strategy, properties } = this.plan;
    const { tactics } = STRATEGY_INFO[strategy];
    for (let i = 0; i < most && !this.isOver; i++) {
      const run = this.next++;
      const drawn = this.generator.generate(faultModel, this.streams, run, this.exercised, tactics);
      const { world, monitors, runConfig, adversary } = drawn;
      if (monitors.closeness.isNear) this.near++;
      this.events += world.events;
      for (const client of world.clients) this.steps += client.steps;
      this.hash.add(run, world.context.trace.value());
      if (runConfig.stressed !== null && adversary.hasStressed) {
        const strained = this.strained[runConfig.stressed];
        strained.runs++;
        if (runConfig.boundFraction >= AT_BOUND) strained.atBound++;
      }
      const violation =
        monitors.violations.find((it) => properties.includes(it.property)) ??
        this.insideOf(run, monitors.violations, runConfig);
      if (violation !== undefined) this.note({ run, violation });
    }
  }

  /** The first violation that counts in this run because it keeps the assumptions. */
  private insideOf(
    run: number,
    violations: readonly Violation[],
    { stressed, setup }: RunConfig,
  ): Violation | undefined {
    const { insideOnly = [], faultModel } = this.plan;
    const violation = violations.find((it) => insideOnly.includes(it.property));
    if (violation === undefined) return undefined;
    const broken = assumptions(recordOf(this.plan, { run }), setup.policy);
    // Nodes that forget no more than a claim has votes to spare are no danger; which votes those are is not in a schedule.
    const spares = stressed === 'data-loss' && faultModel.stretch['data-loss'] <= 1 && faultModel.flushes === 0;
    const isKept = (it: Assumption): boolean =>
      (spares && it === 'durability') || (it === 'counters' && violation.property !== 'fencing');
    return broken.every(isKept) ? violation : undefined;
  }

  private note(finding: FailingRun): void {
    const { property } = finding.violation;
    const count = (this.violating[property] ?? 0) + 1;
    this.violating[property] = count;
    this.findings++;
    if (count <= KEPT) this.found.push(finding);
  }

  /** What came of it so far. */
  result(): RangeResult {
    const { from, next: to, runs, events, steps, exercised, strained, near, violating, found } = this;
    const hash = this.hash.digest();
    return { from, to, runs, events, steps, hash, exercised, strained, near, violating, found };
  }
}

/** Makes the runs of a search from `from` to `to`, without `to`, or up to `stopAfter` findings. */
export function searchRange(plan: SearchPlan, from: number, to: number, stopAfter = 1): RangeResult {
  const range = new RangeSearch(plan, from, to, stopAfter);
  range.advance(to - from);
  return range.result();
}

/** Makes one run of a search again, to its end, and writes it down. */
export function recordOf({ faultModel, seed, strategy }: SearchPlan, { run }: Pick<FailingRun, 'run'>): Schedule {
  return recordRun(faultModel, new RandomStreams(seed), run, STRATEGY_INFO[strategy].tactics).schedule;
}
