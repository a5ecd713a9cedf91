import { closeSync, openSync, writeSync } from 'node:fs';
import type { AcquireSettings, Lock, Redlock, ReleaseReport } from 'lockstep-redlock';
import type { HistoryLine, LockLine } from '../../scenarios/history-line.js';

/** Where the lines of a history go, in the order in which things happened. */
export type HistorySink = (line: HistoryLine) => void;

/** A file that lines are added to. */
export interface HistoryFile extends Disposable {
  readonly append: HistorySink;
}

/**
 * Opens a file to add lines to. They are written at once, so that what a process noted before it was killed is there;
 * several processes may share the file.
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

/** How one client records. */
export interface RecorderOptions {
  /** Its name, which no other client of the history has. */
  readonly client: string;
  readonly append: HistorySink;
  /**
   * Time in whole µs, never back. Default: the monotonic clock, which all processes of one machine share. For several
   * machines, a clock that they share, such as `() => Math.round((performance.timeOrigin + performance.now()) * 1000)`
   * under NTP.
   */
  readonly nowUs?: () => number;
  /** How far that may be from the clocks of the other clients, µs. Default 1, which is what rounding takes. */
  readonly errorUs?: number;
}

function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/**
 * What a {@link Recorder} calls of a {@link Lock}. The application may have installed another copy of `lockstep-redlock`, whose
 * classes are not these.
 */
export interface RecordableLock extends Pick<Lock, 'fencingToken' | 'remaining' | 'release'> {
  extend(ttlMs: number): Promise<unknown>;
}

/** What a {@link Recorder} calls of a {@link Redlock}. */
export interface RecordableRedlock<L extends RecordableLock> {
  acquire(resources: string | readonly string[], ttlMs: number, settings?: AcquireSettings): Promise<L>;
}

function isLockError(error: unknown): boolean {
  return error instanceof Error && error.name === 'LockError';
}

type Stamp = Pick<LockLine, 'lock' | 'atUs' | 'errorUs'>;

/**
 * Takes locks from a {@link Redlock} and records what was asked for, what was told and when, for `lockstep verify`.
 * Calls are noted before they are made and ends after they are known, so that what is recorded as held was held.
 *
 * Processes of one machine share its monotonic clock, and may share a file. On several machines, each has a file of its
 * own and a clock that is kept near the others', and says how near: {@link RecorderOptions.errorUs}. Two holds are only
 * called a violation if they overlap by more than that.
 *
 * A process that dies cannot say so. A supervisor that sees it, and lets others in before its locks have expired, notes it in the
 * history: `{ type: 'crashed', client, atUs, errorUs }`, with the time that passed since it was last alive as the error.
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

  /** Like `acquire` of {@link Redlock}, with a lock that goes on recording. */
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

/** A lock whose story is recorded. */
export class RecordedLock<L extends RecordableLock = Lock> {
  /** The lock itself; what is called on it is not recorded. */
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

  /** Notes that `resource` took a write under this lock; called by the code that sees it happen. */
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
