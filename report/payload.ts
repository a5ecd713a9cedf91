import type { PropertyId, Schedule } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';
import type { RunSnapshot } from './run-snapshot.js';

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
  readonly taken: RunSnapshot | null;
  /** Where the run comes from: whether the page can run it again. */
  readonly source: Runnable | Recording;
  readonly likelihood: Likelihood | null;
  readonly counterfactual: Counterfactual | null;
}

/** A schedule that the page can run again. */
interface Runnable {
  readonly kind: 'schedule';
  /** Properties that count in the verdict besides those of every schedule. */
  readonly also: readonly PropertyId[];
  /** Mitigations with which the same schedule, as it was written, breaks nothing; `null` where none was tried. */
  readonly prevented: readonly string[] | null;
  /** Mitigations to offer, the most to the point first; others can be typed. */
  readonly mitigations: readonly string[];
  /** The command that opens it in the playground, to step through it by hand; `null` if there is none. */
  readonly byHand: string | null;
  /** Another run that it is compared with. */
  readonly other: ComparedRun | null;
}

/** A run beside that of the page, which runs it as well. */
export interface ComparedRun extends Pick<Payload, 'id' | 'title' | 'replay' | 'schedule' | 'hash' | 'taken'> {
  /** What the run of the page, and this one, are called beside each other. */
  readonly names: readonly [this: string, other: string];
  readonly also: readonly PropertyId[];
}

/** A run that was taken down elsewhere, and that the page cannot run again. */
interface Recording {
  readonly kind: 'recording';
  /** Why it is not run again, in one sentence for readers. */
  readonly why: string;
  /** Which part of the run is here; `null` if all of it. */
  readonly part: Part | null;
}

/** A part of a run that is too long for one page. */
export interface Part {
  /** Events of the whole run. */
  readonly total: number;
  /** First event of the window that is here; what comes before it is there because it is still in force. */
  readonly fromSeq: number;
  /** The events at which something goes wrong, in order. */
  readonly wrong: readonly number[];
  /** The file that has the rest; `null` where none was written. */
  readonly beside: SidecarFile | null;
}

/** The file that lies beside a report and holds its whole run, window by window. */
export interface SidecarFile {
  readonly name: string;
  readonly places: readonly WindowPlace[];
}

/** Where a window lies in its file, bytes. */
export interface WindowPlace {
  readonly at: number;
  readonly bytes: number;
  readonly fromSeq: number;
  readonly fromUs: number;
}

/** A stretch of a run, with what it takes to show it by itself. */
export interface TraceWindow extends Pick<RunSnapshot, 'events' | 'claims' | 'names'> {
  readonly fromSeq: number;
  /** Earlier events that are still in force, or led to one of these. */
  readonly carried: readonly TraceEvent[];
}

/** How likely a violation was, from prefixes of the run on. */
export interface Likelihood {
  /** Futures drawn from each prefix. */
  readonly futures: number;
  /** What a future is, in words for readers. */
  readonly model: string;
  readonly points: readonly LikelihoodPoint[];
}

/** How likely a violation is after a prefix of the run. */
interface LikelihoodPoint {
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

/** What a mitigation does to the same schedules. */
interface CounterfactualRow {
  /** As `replay --with` takes it; empty for none. */
  readonly mitigation: string;
  readonly violated: number;
  readonly unavailable: number;
  readonly runs: number;
}
