import type { ClientFailure } from '../libraries/failure-file.js';
import type { Recording } from '../libraries/recording.js';
import type { ViolationKind } from '../libraries/search/kinds.js';

/* What an audit is asked, and what it says: what its users see. */

/** Clients that a lock may be handed. */
export const CLIENT_KINDS = ['ioredis', 'node-redis', 'upstash', 'iovalkey'] as const;

/** One of {@link CLIENT_KINDS}. */
export type ClientKind = (typeof CLIENT_KINDS)[number];

/** What a lock promises to its users. */
export type PromiseKind = 'single' | 'replicated' | 'redlock' | 'guard' | 'update';

/** What a user says of a lock: on how many nodes it is, and its functions by name. */
export interface Hints {
  readonly nodes?: number | undefined;
  /** The function that acquires, and the one that releases, by name. */
  readonly acquire?: string | undefined;
  readonly release?: string | undefined;
}

/** A failure on a schedule, with all that its run depends on beside the file. */
export type FoundBefore = Pick<ClientFailure, 'kind' | 'extending' | 'commandTimeoutMs' | 'schedule'>;

/** What is to be audited, and how; plain, so that it can be sent to a worker. */
export interface AuditPlan extends Hints {
  /** The file of the lock. */
  readonly path: string;
  readonly client?: ClientKind | undefined;
  /** Most runs. */
  readonly runs: number;
  readonly seed: string;
  /** Time of the processor for the search, ms: how busy the machine is changes nothing. */
  readonly budgetMs: number;
  /** What was found before, to be shown again; nothing is searched then. */
  readonly replay?: FoundBefore | undefined;
}

/** A finding of an audit. */
export interface Finding {
  /** Name of the defect, such as `blind-release`; the kind of failure if neither the commands of the lock nor its run name a defect. */
  readonly id: string;
  readonly property: string;
  readonly kind: ViolationKind | null;
  readonly sentence: string;
  readonly fix: string | null;
  /** `lock.ts:42:17   DEL a of c1`; `null` if unknown. */
  readonly decidedBy: string | null;
  /** The same as path, line and column, both from 1. */
  readonly place: { readonly path: string; readonly line: number; readonly column: number } | null;
  /** Assumptions of the lock that the schedule breaks. */
  readonly assumptionsBroken: readonly string[];
  /** The schedule in at most twenty lines; empty if no schedule is needed. */
  readonly text: string;
  /** Input to reproduce it; `null` if a run without faults shows it. */
  readonly found: FoundBefore | null;
  readonly recording: Recording | null;
}

/** Result of an audit. */
export interface AuditResult {
  /** The name of the file. */
  readonly name: string;
  readonly verdict: 'passed' | 'violated' | 'inconclusive';
  /** How the lock is used, as the audit understood it, one sentence each. */
  readonly understood: readonly string[];
  readonly promise: PromiseKind;
  /** Maximum number of concurrent holders: more than 1 for a semaphore. */
  readonly admits: number;
  readonly findings: readonly Finding[];
  /** Observations that are not failures. */
  readonly notes: readonly string[];
  readonly runs: number;
  /** Requested runs for which the budget left no time. */
  readonly left: number;
  readonly acquired: number;
  readonly classes: Readonly<Record<string, number>>;
  readonly isInterrupted: boolean;
}
