import type { ClientLibrary } from '../client-libraries.js';

/**
 * How locks are asked for: one after the other; by 64 workers at once, each on a resource of its own; by 16 workers that
 * want the same resource (hold 1 ms, think 20 ms, retry after 10 ± 5 ms); or one lock extended again and again.
 */
export type Shape = 'serial' | 'concurrent64' | 'contended16' | 'extend';

/** All shapes of load. */
export const SHAPES: readonly Shape[] = Object.freeze(['serial', 'concurrent64', 'contended16', 'extend']);

/** The state of the nodes: killed is SIGKILL, stopped is SIGSTOP, slow is a proxy that holds requests back for 50 ms. */
export type Health =
  | 'healthy'
  | 'one-killed'
  | 'two-killed'
  | 'one-stopped'
  | 'two-stopped'
  | 'one-slow'
  | 'two-slow'
  | 'three-stopped';

/** All states of the nodes that are measured. */
export const HEALTHS: readonly Health[] = Object.freeze([
  'healthy',
  'one-killed',
  'two-killed',
  'one-stopped',
  'two-stopped',
  'one-slow',
  'two-slow',
  'three-stopped',
]);

/** Other libraries, at the versions that this package is developed with. */
export type PeerName =
  | 'redlock@4.2.0'
  | 'redlock@5.0.0-beta.2'
  | 'redlock-universal@0.8.5'
  | 'redis-semaphore@5.8.0'
  | '@sesamecare-oss/redlock@1.4.0';

/**
 * What is measured: the lock of this package, other libraries, and floors, which are the bare commands on bare ioredis
 * clients: all replies awaited, or those of a quorum, or all on clients with auto-pipelining. The floor on a client awaits
 * the replies of a quorum, with a time-out for each round, as a lock has to.
 */
export type SubjectName =
  | 'lockstep'
  | 'floor'
  | 'floor-at-quorum'
  | 'floor-auto-pipelined'
  | `${'lockstep' | 'floor'} on ${ClientLibrary}`
  | PeerName;

/** What is measured. */
export interface BenchOptions {
  /** Numbers of nodes; bad health is measured with five. Default 5 alone. */
  readonly nodes?: readonly number[];
  /** Default all. */
  readonly shapes?: readonly Shape[];
  /** Default all, where the nodes are ours to harm, else `healthy`. */
  readonly healths?: readonly Health[];
  /** On which clients the lock is measured besides, each beside its own floor, on healthy nodes. Default none. */
  readonly clients?: readonly ClientLibrary[];
  /** Whether other libraries are measured too, as far as they are installed. Default true. */
  readonly peers?: boolean;
  /** Measured rounds; in each, every subject runs once, in an order that rotates. Default 21. */
  readonly rounds?: number;
  /** Scales how much one subject does in one round. Default 1. */
  readonly effort?: number;
  /** Called after each measurement. */
  readonly onProgress?: (progress: BenchProgress) => void;
  /** Ends the benchmark after the operations under way; the result has what was measured so far. */
  readonly signal?: AbortSignal;
}

/** How far a benchmark is, and what it measures now. */
export interface BenchProgress {
  readonly done: number;
  readonly total: number;
  readonly nodes: number;
  readonly shape: Shape;
  readonly health: Health;
}

/** How 16 workers shared one resource. */
export interface Contention {
  /** Jain's index of the workers' acquisitions, median over the rounds: 1 is even, 1/16 is one worker alone. */
  readonly jain: number;
  /** Workers that got the lock not once in a round, the median and the worst round. */
  readonly starved: number;
  readonly starvedMost: number;
}

/** One line of the result. An operation is one acquisition with its release, or one extension. */
export interface BenchRow {
  readonly subject: SubjectName;
  readonly nodes: number;
  readonly shape: Shape;
  readonly health: Health;
  /** Median over the rounds; hand-offs in `contended16`. */
  readonly opsPerSecond: number;
  /** The acquisition alone (the extension in `extend`), over all operations of all rounds, µs. */
  readonly p50Us: number;
  readonly p99Us: number;
  /** CPU time of this process, user and system, median over the rounds, µs. */
  readonly cpuUsPerOp: number;
  /** Operations per second against the floor of the same round, median; `null` where the floor was not measured. */
  readonly ratioToFloor: number | null;
  /** Operations measured, how many of them failed, and how the failures were told apart by their authors. */
  readonly operations: number;
  readonly failed: number;
  readonly failures: readonly string[];
  /** Longer than a measurement waits: what is here is a lower bound, and the subject was not measured again. */
  readonly stalledMs: number | null;
  readonly contention: Contention | null;
}

/** A median of ratios taken within one round, with its 95 % interval (order statistics, no distribution assumed). */
export interface Ratio {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** One subject against another one, round by round. */
export interface Comparison {
  readonly nodes: number;
  readonly shape: Shape;
  readonly health: Health;
  readonly subject: SubjectName;
  readonly against: SubjectName;
  readonly ops: Ratio;
  readonly cpu: Ratio;
}

/** The lock on bad nodes beside the same lock on healthy ones, measured in turns, µs. */
export interface Delay {
  readonly nodes: number;
  readonly health: Health;
  readonly p50Us: number;
  readonly healthyP50Us: number;
  readonly p99Us: number;
  readonly healthyP99Us: number;
}

/** A figure that the lock has to reach. */
export interface Threshold {
  readonly what: string;
  readonly wanted: string;
  readonly found: string;
  readonly met: boolean;
}

/** What it was measured on. */
export interface BenchMachine {
  readonly node: string;
  readonly platform: string;
  readonly cpu: string;
  readonly cpus: number;
  readonly redis: string;
  readonly ioredis: string;
}

/** What a benchmark came to. */
export interface BenchResult {
  readonly schema: 'lockstep.bench/1';
  readonly machine: BenchMachine;
  readonly rounds: number;
  /** Whether the signal ended it early. */
  readonly interrupted: boolean;
  readonly rows: readonly BenchRow[];
  readonly comparisons: readonly Comparison[];
  readonly delays: readonly Delay[];
  readonly thresholds: readonly Threshold[];
  /** Other libraries and clients that are not installed. */
  readonly missing: readonly (PeerName | ClientLibrary)[];
}
