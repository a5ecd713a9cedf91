import { type Assumption, assumptions } from '../properties/assumptions.js';
import { noCounts } from '../properties/coverage.js';
import type { Violation } from '../properties/violation.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import { RunsHash, Streams } from '../sim/index.js';
import { drawRun, recordRun } from './drawn-run.js';
import type { Premise } from './premise.js';
import { STRATEGY_INFO, type StrategyName } from './strategy-info.js';
import { noStrained, type Tally } from './tally.js';
import type { Weather } from './weather.js';

/** What decides which runs a search makes, and what counts as found. Plain data. */
export interface SearchPlan {
  readonly weather: Weather;
  /** Any string. */
  readonly seed: string;
  readonly strategy: StrategyName;
  /** Properties that count as found. */
  readonly properties: readonly PropertyId[];
  /** Further properties, which count only in runs that keep all assumptions of the lock. Default: none. */
  readonly insideOnly?: readonly PropertyId[];
}

/** A run that violates a property, from 0. */
export interface Finding {
  readonly run: number;
  readonly violation: Violation;
}

/** What came of the runs from `from` to `to`, without `to`. */
export interface RangeResult extends Tally {
  readonly from: number;
  /** The end of what was made, which is the end of the range unless it was cut off or had found enough. */
  readonly to: number;
  /** The first findings of each property, in the order of runs. */
  readonly found: readonly Finding[];
}

/** Findings of one property that a range keeps; the others are counted. */
const KEPT = 5;
/** Share of a bound from which on a run counts as near to it. */
const AT_BOUND = 0.99;

/** Makes a range of a search, step by step. */
export class RangeSearch {
  readonly found: Finding[] = [];
  private readonly plan: SearchPlan;
  private readonly from: number;
  private readonly to: number;
  private readonly stopAfter: number;
  private readonly streams: Streams;
  private readonly hash = new RunsHash();
  private readonly exercised = noCounts();
  private readonly strained = noStrained();
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
    this.streams = new Streams(plan.seed);
  }

  get isOver(): boolean {
    return this.next >= this.to || this.findings >= this.stopAfter;
  }

  get runs(): number {
    return this.next - this.from;
  }

  /** Makes `most` further runs, or those that are left. */
  advance(most: number): void {
    const { weather, strategy, properties } = this.plan;
    const { tactics } = STRATEGY_INFO[strategy];
    for (let i = 0; i < most && !this.isOver; i++) {
      const run = this.next++;
      const drawn = drawRun(weather, this.streams, run, this.exercised, tactics);
      const { world, monitors, premise, adversary } = drawn;
      if (monitors.closeness.isNear) this.near++;
      this.events += world.events;
      for (const client of world.clients) this.steps += client.steps;
      this.hash.add(run, world.chronicle.trace.value());
      if (premise.strain !== null && adversary.strained) {
        const strained = this.strained[premise.strain];
        strained.runs++;
        if (premise.nearness >= AT_BOUND) strained.atBound++;
      }
      const violation =
        monitors.violations.find((it) => properties.includes(it.property)) ??
        this.insideOf(run, monitors.violations, premise);
      if (violation !== undefined) this.note({ run, violation });
    }
  }

  /** The first violation that counts in this run because it keeps the assumptions. */
  private insideOf(run: number, violations: readonly Violation[], { strain, setup }: Premise): Violation | undefined {
    const { insideOnly = [], weather } = this.plan;
    const violation = violations.find((it) => insideOnly.includes(it.property));
    if (violation === undefined) return undefined;
    const broken = assumptions(recordOf(this.plan, { run }), setup.policy);
    // Nodes that forget no more than a claim has votes to spare are no danger; which votes those are is not in a schedule.
    const spares = strain === 'forget' && weather.stretch.forget <= 1 && weather.flushes === 0;
    const isKept = (it: Assumption): boolean =>
      (spares && it === 'memory') || (it === 'counters' && violation.property !== 'fencing');
    return broken.every(isKept) ? violation : undefined;
  }

  private note(finding: Finding): void {
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
export function recordOf({ weather, seed, strategy }: SearchPlan, { run }: Pick<Finding, 'run'>): Schedule {
  return recordRun(weather, new Streams(seed), run, STRATEGY_INFO[strategy].tactics).schedule;
}
