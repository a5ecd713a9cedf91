import { type InspectOptions, inspect } from 'node:util';
import type { FencingToken } from '../../core/index.js';
import { type LockError, type LockVotes, withCallers } from './errors.js';
import type { LockRun, ReleaseReport } from './run.js';
import { checkTtl } from './settings.js';

/** Aborts when the lock's validity ends by itself. */
export interface LockSignal extends AbortSignal {
  /** The reason, under the name that node-redlock gives it; `undefined` while the lock is held. */
  readonly error?: LockError;
}

/** A lock as logs show it. */
export interface LockInfo {
  readonly resources: readonly string[];
  /** What is left of the validity, ms. */
  readonly remainingMs: number;
  readonly votes: LockVotes;
  /** That of the fencing token; `null` without one. The token itself is not for logs: its attempt is the lock's token. */
  readonly fencingCounter: number | null;
}

/**
 * A lock that was acquired, and may have ended since: {@link Lock.remaining} tells.
 *
 * @example
 * ```ts
 * await using lock = await redlock.acquire(['invoice:17'], 10_000);
 * await fetch(url, { signal: lock.signal });
 * // released here, whatever happened
 * ```
 */
export class Lock implements AsyncDisposable {
  readonly #run: LockRun;
  #abort: AbortController | null = null;

  /** Locks come from `redlock.acquire`. */
  constructor(run: LockRun) {
    this.#run = run;
  }

  get resources(): readonly string[] {
    return this.#run.resources;
  }

  /** The token that marks the keys as this lock's: 32 random hexadecimal digits. */
  get value(): string {
    return this.#run.token;
  }

  /**
   * When the validity ends, ms since the epoch: an estimate by the wall clock, for logs and for node-redlock's users.
   * Decide by {@link Lock.remaining}, which nobody can set.
   */
  get expiration(): number {
    return this.#run.expirationMs;
  }

  /**
   * Aborted by a local timer when the validity ends, whatever the network does, with a {@link LockError}
   * (`ERR_LOCK_LOST`) as its reason. A release does not abort it. The timer waits for the event loop like any other:
   * code that blocks the loop asks {@link Lock.remaining} instead.
   */
  get signal(): LockSignal {
    if (this.#abort === null) {
      const abort = new AbortController();
      Object.defineProperty(abort.signal, 'error', { get: () => abort.signal.reason });
      this.#abort = abort;
      if (this.#run.lost !== null) abort.abort(this.#run.lost);
      else this.#run.onLost = (reason) => abort.abort(reason);
    }
    return this.#abort.signal;
  }

  /** What is left of the validity, ms; 0 once it has ended or the lock was released. */
  remaining(): number {
    return this.#run.remainingUs() / 1000;
  }

  /**
   * With the setting `fencing`: greater than that of every lock that any client held on any resource of these nodes
   * before. A resource that remembers the greatest it has seen, and refuses writes with a lesser one, is safe from
   * holders that do not know yet that they have lost the lock. To be compared by `compareFencingTokens`. Else `null`.
   */
  get fencingToken(): FencingToken | null {
    return this.#run.fence;
  }

  /** The votes behind the lock: those of its last extension if it was extended. Late ones are added as they come. */
  get votes(): LockVotes {
    return this.#run.votes;
  }

  /** How many of the nodes that voted may forget the lock in a crash without another client getting it: see `votesWanted`. */
  get toleratedDataLoss(): number {
    return this.#run.toleratedDataLoss;
  }

  /**
   * Keeps the lock for `ttlMs` from now on and resolves with this same lock. A lock whose validity has ended is never
   * extended: somebody else may have held it since.
   *
   * @param ttlMs - New time to live, whole ms.
   * @throws LockError `ERR_LOCK_LOST` if the lock has ended or its keys are gone, `ERR_LOCK_QUORUM_UNREACHABLE` or
   * `ERR_LOCK_TIMEOUT` if a quorum did not answer (in time): the lock then keeps the validity it had; `ERR_LOCK_CONFIG`
   * if `maxExtensions` is reached or the TTL is none.
   */
  async extend(ttlMs: number): Promise<this> {
    checkTtl(this.#run.policy.settings, ttlMs, 0, 'extend');
    try {
      await this.#run.extend(ttlMs);
    } catch (error) {
      throw withCallers(error);
    }
    return this;
  }

  /**
   * Gives the lock back, on all nodes; resolves when a quorum has answered, or all have or timed out. It never throws:
   * a lock that had expired, or whose nodes are away, is reported as such. Further calls resolve with the same report.
   */
  release(): Promise<ReleaseReport> {
    return this.#run.release();
  }

  /** What may be logged: not the token, by which anybody could release the lock. */
  toJSON(): LockInfo {
    const { resources, votes, fencingToken } = this;
    return { resources, remainingMs: this.remaining(), votes, fencingCounter: fencingToken?.counter ?? null };
  }

  static {
    Object.defineProperty(Lock.prototype, inspect.custom, {
      value(this: Lock, _depth: number, options: InspectOptions) {
        return `Lock ${inspect(this.toJSON(), options)}`;
      },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}
