import type { Assumption, Outage, Violation } from '../properties/index.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';
import type { Claim } from './claims.js';

/** What an HTML report carries besides the viewer. */
export interface Payload {
  readonly schema: 'lockstep.report/1';
  readonly id: string;
  readonly title: string;
  readonly story: string;
  /** The command that shows the run again. */
  readonly replay: string;
  readonly schedule: Schedule;
  /** Properties that count in the verdict besides those of every schedule. */
  readonly also: readonly PropertyId[];
  /** The trace hash when the report was written: the page runs the schedule again and compares. */
  readonly hash: string;
  /** Mitigations to offer, the most to the point first; others can be typed. */
  readonly mitigations: readonly string[];
  /** The run as it was taken down, where the page cannot run it again; `null` where it can. */
  readonly recorded: Recorded | null;
  readonly likelihood: Likelihood | null;
  readonly counterfactual: Counterfactual | null;
}

/** A run as it was taken down. */
export interface Recorded {
  /** Why it is not run again, in one sentence for readers. */
  readonly why: string;
  readonly events: readonly TraceEvent[];
  /** How many events the whole run has; more than `events` where only a window is here. */
  readonly total: number;
  /** Name of the file beside the report that has the rest; `null` where nothing is left out. */
  readonly beside: string | null;
  readonly claims: readonly Claim[];
  readonly violations: readonly Violation[];
  readonly outages: readonly Outage[];
  readonly assumptionsBroken: readonly Assumption[];
}

/** How likely a violation was, from prefixes of the run on. */
export interface Likelihood {
  /** Futures drawn from each prefix. */
  readonly futures: number;
  readonly points: readonly LikelihoodPoint[];
}

export interface LikelihoodPoint {
  /** The prefix ends with this event. */
  readonly seq: number;
  readonly atUs: number;
  /** How many of the futures violate. */
  readonly violating: number;
}

/** Known mitigations, each tried on the same schedules. */
export interface Counterfactual {
  /** What the schedules are, in words. */
  readonly schedules: string;
  readonly rows: readonly CounterfactualRow[];
}

export interface CounterfactualRow {
  /** As `replay --with` takes it; empty for none. */
  readonly mitigation: string;
  readonly violated: number;
  readonly unavailable: number;
  readonly runs: number;
}
