import type { Assumption } from '../properties/assumptions.js';
import { judge } from '../properties/judge.js';
import type { Violation } from '../properties/violation.js';
import type { PropertyId, PropertyKind, Schedule } from '../scenarios/index.js';
import type { FailingRun } from './range.js';
import { shrink } from './shrink.js';
import { type Explained, explain } from './shrinking/explain.js';
import type { Deployment } from './shrinking/fails-like.js';

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

/**
 * What is kept of a finding whose run is written down as `found`; made small unless that is not wanted.
 *
 * @param deployment - What of it stays when it is made small. Default: nothing.
 */
export function counterexampleOf(
  { run, violation }: FailingRun,
  found: Schedule,
  isSmallWanted: boolean,
  deployment: Deployment | null = null,
): Counterexample {
  const { property, kind } = violation;
  const schedule = isSmallWanted ? shrink(found, property, deployment).schedule : found;
  const judgement = judge(schedule, [property]);
  return {
    property,
    kind,
    run,
    found,
    schedule,
    violation: judgement.violations.find((it) => it.property === property) ?? violation,
    foundEvents: judge(found).run.events,
    events: judgement.run.events,
    hash: judgement.run.hash,
    assumptionsBroken: judgement.assumptionsBroken,
    explained: isSmallWanted ? explain(schedule, property, deployment !== null) : [],
  };
}
