import type { PropertyId, Schedule } from '../scenarios/index.js';
import type { Taken } from './taken.js';

/** What an HTML report carries besides the viewer. */
export interface Payload {
  readonly schema: 'lockstep.report/2';
  readonly id: string;
  readonly title: string;
  readonly story: string;
  /** The command that shows the run again. */
  readonly replay: string;
  readonly schedule: Schedule;
  /** The trace hash when the report was written; empty where nothing can have the same one. */
  readonly hash: string;
  /** The run as it was taken down, or a window of it; `null` where it is long, and the page runs it by itself. */
  readonly taken: Taken | null;
  /** Where the run comes from: whether the page can run it again. */
  readonly source: Runnable | Recording;
  readonly likelihood: Likelihood | null;
  readonly counterfactual: Counterfactual | null;
}

/** A schedule that the page can run again. */
export interface Runnable {
  readonly kind: 'schedule';
  /** Properties that count in the verdict besides those of every schedule. */
  readonly also: readonly PropertyId[];
  /** Mitigations to offer, the most to the point first; others can be typed. */
  readonly mitigations: readonly string[];
}

/** A run that was taken down elsewhere, and that the page cannot run again. */
export interface Recording {
  readonly kind: 'recording';
  /** Why it is not run again, in one sentence for readers. */
  readonly why: string;
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
