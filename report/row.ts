import type { Policy } from '../deviations/index.js';
import type { Schedule } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';

/** What a line of a timeline is about. */
export type RowKind = 'send' | 'late' | 'outcome' | 'end' | 'fault' | 'key' | 'check' | 'write';

/** One line of a timeline. */
export interface Row {
  /** Place in the trace of the (first) event that it tells of. */
  readonly seq: number;
  readonly atUs: number;
  readonly kind: RowKind;
  readonly who: string;
  readonly what: string;
  /** Clients and nodes to which it happens. */
  readonly processes: readonly string[];
  /** Tokens that it is about. */
  readonly tokens: readonly number[];
}

/** What rows are made with. */
export interface RowContext {
  readonly schedule: Schedule;
  readonly policy: Policy;
  readonly trace: readonly TraceEvent[];
  readonly eventOf: (seq: number) => TraceEvent | undefined;
  /** Events by the one that led to them. */
  readonly effectsOf: (event: TraceEvent) => readonly TraceEvent[];
  readonly tokenName: (token: number) => string;
}
