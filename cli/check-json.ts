import { choiceOf } from '../deviations/index.js';
import type { Assumption, Judgement, KindVerdict } from '../properties/index.js';
import { LIVENESS } from '../properties/property-lists.js';
import type { PropertyId, PropertyKind } from '../scenarios/index.js';
import { untried } from '../search/coverage-labels.js';
import type { CheckResult, Explained } from '../search/index.js';
import { greatestShare } from '../search/share.js';
import { type Plan, unjudged } from './check-plan.js';
import type { Regressions } from './regressions.js';

/** A counterexample as JSON has it. */
export interface CounterexampleJson {
  readonly property: string;
  readonly kind: PropertyKind;
  /** Path of the scenario file, or `null` if it could not be written. */
  readonly schedule: string | null;
  readonly events: number;
  /** Path of its HTML report, or `null` if it could not be written. */
  readonly report: string | null;
  /** The command that shows it again. */
  /** `null` where its file could not be written. */
  readonly replay: string | null;
  readonly run: number;
  readonly hash: string;
  readonly foundEvents: number;
  readonly atUs: number;
  readonly untilUs: number | null;
  readonly resource: string;
  readonly detail: string;
  readonly preventedBy: readonly string[];
  /** What happens without each of its pieces; nothing where it was not made small. */
  readonly needed: readonly Explained[];
}

/** What `check --json` prints. */
interface CheckJson extends Omit<CheckResult, 'counterexample'> {
  readonly verdicts: Readonly<Record<PropertyKind, KindVerdict>> & { readonly unavailable: readonly unknown[] };
  readonly assumptionsBroken: readonly Assumption[];
  /** What was searched, resolved from flags and defaults. */
  readonly configuration: unknown;
  /** What came of the known schedules, which are replayed first. */
  readonly regressions: Regressions;
  /**
   * Of the schedules that this search draws, fewer than this share violate a property, at 95 %; not of anybody's
   * production. `null` where it found one, or its runs depend on each other.
   */
  readonly shareBelow: number | null;
  /** What the search never tries, in words. */
  readonly notTried: readonly string[];
  /** Properties that it does not judge, and those that it judges only in schedules that keep the assumptions. */
  readonly notJudged: readonly PropertyId[];
  readonly judgedInside: readonly PropertyId[];
  readonly counterexample?: CounterexampleJson;
  /** Path of the page for a pass, where one was asked for. */
  readonly report?: string;
}

/** The result of a search as one JSON value. */
export function checkJson(
  plan: Plan,
  result: CheckResult,
  regressions: Regressions,
  failure: { readonly judgement: Judgement; readonly counterexample: CounterexampleJson } | null,
  page: string | null = null,
): CheckJson {
  const { verdict, reason, runs, events, steps, seed, hash, exercised, notHit, strained } = result;
  const { strategy, near, elapsedMs, interrupted, workers } = result;
  const { faultModel, ...rest } = plan;
  const unavailable = failure?.judgement.outages.map(({ fromUs, toUs }) => ({ fromUs, toUs })) ?? [];
  return {
    verdict,
    runs,
    events,
    seed,
    strategy,
    hash,
    exercised,
    notHit,
    notTried: untried(faultModel),
    notJudged: unjudged(plan.properties, plan.insideOnly),
    judgedInside: plan.insideOnly,
    ...(failure === null ? {} : { counterexample: failure.counterexample }),
    ...(page === null ? {} : { report: page }),
    verdicts: { ...(failure?.judgement.verdicts ?? passed(plan, result)), unavailable },
    assumptionsBroken: failure?.judgement.assumptionsBroken ?? [],
    reason,
    strained,
    near,
    shareBelow: verdict === 'passed' ? greatestShare(runs) : null,
    regressions,
    steps,
    elapsedMs: Math.round(elapsedMs),
    workers,
    interrupted,
    configuration: { ...rest, faultModel: { ...faultModel, policy: choiceOf(faultModel.policy) } },
  };
}

function passed({ properties }: Plan, { verdict, exercised }: CheckResult): Record<PropertyKind, KindVerdict> {
  const looked = (property: 'mutual-exclusion' | 'quorum-backed' | 'no-stale-write'): KindVerdict =>
    verdict === 'passed' && properties.includes(property) ? 'safe' : 'unchecked';
  return {
    belief: looked('mutual-exclusion'),
    state: looked('quorum-backed'),
    effect: exercised.writes > 0 ? looked('no-stale-write') : 'unchecked',
    liveness: verdict === 'passed' && LIVENESS.some((it) => properties.includes(it)) ? 'safe' : 'unchecked',
  };
}
