import { closeSync, openSync, writeSync } from 'node:fs';
import type { AcquireSettings, Lock, Redlock, ReleaseReport } from 'lockstep-redlock';
import type { HistoryLine, LockLine } from '../../scenarios/history-line.js';

/** Receives the lines of a history, in the order of the events. */
export type HistorySink = (line: HistoryLine) => void;

/** A history file that is open for appending. */
export interface HistoryFile extends Disposable {
  readonly append: HistorySink;
}

/**
 * Opens a file for appending. Each line is written at once, so lines survive when the process is killed. Several processes may
 * share the file.
 */
export function openHistory(path: string): HistoryFile {
  const file = openSync(path, 'a');
  return {
    append: (line) => {
      writeSync(file, `${JSON.stringify(line)}\n`);
    },
    [Symbol.dispose]: () => closeSync(file),
  };
}

/** Options of a {@link Recorder}. */
export interface RecorderOptions {
  /** Name of the client, unique in the history. */
  readonly client: string;
  readonly append: HistorySink;
  /**
   * Time in whole µs, never decreasing. Default: the monotonic clock, which all processes of one machine share. For several
   * machines, pass a shared clock, such as `() => Math.round((performance.timeOrigin + performance.now()) * 1000)`
   * under NTP.
   */
  readonly nowUs?: () => number;
  /** Largest difference from the clocks of the other clients, µs. Default 1, for rounding. */
  readonly errorUs?: number;
}

function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/**
 * The methods of a {@link Lock} that a {@link Recorder} calls. The application may have installed another copy of
 * `lockstep-redlock`, with other classes.
 */
export interface RecordableLock extends Pick<Lock, 'fencingToken' | 'remaining' | 'release'> {
  extend(ttlMs: number): Promise<unknown>;
}

/** The methods of a {@link Redlock} that a {@link Recorder} calls. */
export interface RecordableRedlock<L extends RecordableLock> {
  acquire(resources: string | readonly string[], ttlMs: number, settings?: AcquireSettings): Promise<L>;
}

function isLockError(error: unknown): boolean {
  return error instanceof Error && error.name === 'LockError';
}

type Stamp = Pick<LockLine, 'lock' | 'atUs' | 'errorUs'>;

/**
 * Acquires locks from a {@link Redlock} and records the calls, their results and the times, for `lockstep verify`. A call is
 * recorded before it is made, and its end after it is known. So a lock was held whenever the record says so.
 *
 * Processes of one machine share its monotonic clock, and may share a file. On several machines, each has its own file and a
 * synchronized clock, with the largest error in {@link RecorderOptions.errorUs}. Two holds are a violation only if they overlap
 * by more than that.
 *
 * A process cannot record its own crash. If a supervisor lets other clients in before the locks of a dead process have expired, it
 * must record the crash: `{ type: 'crashed', client, atUs, errorUs }`. The error is the time since the process was last alive.
 *
 * @example
 * ```ts
 * import { openHistory, Recorder } from 'lockstep/history';
 *
 * using file = openHistory('client-1.jsonl');
 * const recorder = new Recorder(redlock, { client: 'client-1', append: file.append });
 * const lock = await recorder.acquire('invoice:17', 10_000);
 * lock.wrote('invoice:17');
 * await lock.release();
 * // lockstep verify client-1.jsonl client-2.jsonl
 * ```
 */
export class Recorder<L extends RecordableLock = Lock> {
  readonly #redlock: RecordableRedlock<L>;
  readonly #client: string;
  readonly #append: HistorySink;
  readonly #nowUs: () => number;
  readonly #errorUs: number;
  #locks = 0;

  constructor(redlock: RecordableRedlock<L>, { client, append, nowUs = monotonicUs, errorUs = 1 }: RecorderOptions) {
    this.#redlock = redlock;
    this.#client = client;
    this.#append = append;
    this.#nowUs = nowUs;
    this.#errorUs = errorUs;
  }

  /** Like `acquire` of {@link Redlock}. The returned lock is recorded too. */
  async acquire(
    resources: string | readonly string[],
    ttlMs: number,
    settings: AcquireSettings = {},
  ): Promise<RecordedLock<L>> {
    const name = `${this.#client}/${this.#locks++}`;
    const stamp = (): Stamp => ({ lock: name, atUs: this.#nowUs(), errorUs: this.#errorUs });
    const all = typeof resources === 'string' ? [resources] : resources;
    this.#append({ type: 'acquire', ...stamp(), client: this.#client, resources: all, ttlMs });
    try {
      const lock = await this.#redlock.acquire(resources, ttlMs, settings);
      this.#append(claimLine('acquired', stamp(), lock));
      return new RecordedLock(lock, stamp, this.#append);
    } catch (error) {
      // Whatever else it was, nobody knows how far it got.
      this.#append({ type: isLockError(error) ? 'failed' : 'unknown', ...stamp() });
      throw error;
    }
  }
}

/** A lock whose operations are recorded. */
export class RecordedLock<L extends RecordableLock = Lock> {
  /** The lock itself; direct calls to it are not recorded. */
  readonly lock: L;
  readonly #stamp: () => Stamp;
  readonly #append: HistorySink;

  /** Recorded locks come from {@link Recorder.acquire}. */
  constructor(lock: L, stamp: () => Stamp, append: HistorySink) {
    this.lock = lock;
    this.#stamp = stamp;
    this.#append = append;
  }

  /** See {@link Lock.extend}. */
  async extend(ttlMs: number): Promise<void> {
    this.#append({ type: 'extend', ...this.#stamp(), ttlMs });
    try {
      await this.lock.extend(ttlMs);
    } catch (error) {
      const at = this.#stamp();
      this.#append({ type: 'not-extended', ...at, validUs: validUs(this.lock) });
      throw error;
    }
    this.#append(claimLine('extended', this.#stamp(), this.lock));
  }

  /** See {@link Lock.release}. */
  async release(): Promise<ReleaseReport> {
    this.#append({ type: 'release', ...this.#stamp() });
    const report = await this.lock.release();
    this.#append({ type: 'released', ...this.#stamp() });
    return report;
  }

  /** Records that `resource` accepted a write under this lock. */
  wrote(resource: string): void {
    this.#append({ type: 'write', ...this.#stamp(), resource });
  }
}

/**
 * A claim as it stood when it could be noted. One that was over by then had something left when it was granted, and nobody
 * knows how much: a process can be frozen in between.
 */
function claimLine(type: 'acquired' | 'extended', at: Stamp, lock: RecordableLock): LockLine {
  const left = validUs(lock);
  if (left === 0) return { type: 'unknown', ...at };
  const { fencingToken } = lock;
  if (type === 'extended' || fencingToken === null) return { type, ...at, validUs: left };
  return { type, ...at, validUs: left, fencingToken };
}

/** The validity that a lock claims. Read after the time it is noted with, so that it is never noted as longer. */
function validUs(lock: RecordableLock): number {
  return Math.floor(lock.remaining() * 1000);
}
