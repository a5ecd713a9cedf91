/** How locks are asked for: one after the other, or by 64 workers at once, each on a resource of its own. */
export type Shape = 'serial' | 'concurrent64';

/** The state of the nodes: all well, or one of them killed (SIGKILL) or stopped (SIGSTOP). */
export type Health = 'healthy' | 'one-killed' | 'one-stopped';

/** What is measured: the lock of this package, or the floor, the bare commands on bare ioredis clients. */
export type SubjectName = 'lockstep' | 'floor';

export interface BenchOptions {
  /** How many nodes. Default 5. */
  readonly nodes?: number;
  /** Default both. */
  readonly shapes?: readonly Shape[];
  /** Default all, where the nodes are ours to kill, else `healthy`. */
  readonly healths?: readonly Health[];
  /** Measured rounds; in each, every subject runs once, in an order that rotates. Default 7. */
  readonly rounds?: number;
  /** Acquire-and-release operations of one subject in one round. Default 400 serial, 3000 concurrent. */
  readonly operations?: Partial<Readonly<Record<Shape, number>>>;
  /** Called after each measurement. */
  readonly onProgress?: (progress: BenchProgress) => void;
  /** Ends the benchmark after the operations under way; the result has what was measured so far. */
  readonly signal?: AbortSignal;
}

export interface BenchProgress {
  readonly done: number;
  readonly total: number;
  readonly shape: Shape;
  readonly health: Health;
}

/** One line of the result. An operation is one acquisition with its release. */
export interface BenchRow {
  readonly subject: SubjectName;
  readonly nodes: number;
  readonly shape: Shape;
  readonly health: Health;
  /** Median over the rounds. */
  readonly opsPerSecond: number;
  /** Over all operations of all rounds, µs. */
  readonly p50Us: number;
  readonly p99Us: number;
  /** CPU time of this process, user and system, median over the rounds, µs. */
  readonly cpuUsPerOp: number;
  /**
   * Operations per second against those of the floor on healthy nodes, the median of the ratios within one round. The
   * floor waits for all replies, so with a node away it does not end: rows of bad health use the median healthy floor.
   */
  readonly ratioToFloor: number;
}

export interface BenchMachine {
  readonly node: string;
  readonly platform: string;
  readonly cpu: string;
  readonly cpus: number;
  readonly redis: string;
}

export interface BenchResult {
  readonly schema: 'lockstep.bench/1';
  readonly machine: BenchMachine;
  readonly rounds: number;
  /** Whether the signal ended it early. */
  readonly interrupted: boolean;
  readonly rows: readonly BenchRow[];
}
