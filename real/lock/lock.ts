import { type InspectOptions, inspect } from 'node:util';
import type { FencingToken } from '../../core/index.js';
import { type LockError, type LockVotes, withCallers } from './errors.js';
import type { LockRun, ReleaseReport } from './run.js';
import { checkTtl } from './settings.js';

/** Aborts when the validity of the lock expires. */
export interface LockSignal extends AbortSignal {
  /** The reason, under the name that node-redlock gives it; `undefined` while the lock is held. */
  readonly error?: LockError;
}

/** A lock as logs show it. */
export interface LockInfo {
  readonly resources: readonly string[];
  /** Remaining validity, ms. */
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
   * End of the validity, ms since the epoch: an estimate by the wall clock, for logs and for node-redlock's users.
   * For decisions use {@link Lock.remaining}, which does not depend on the wall clock.
   */
  get expiration(): number {
    return this.#run.expirationMs;
  }

  /**
   * A local timer aborts it when the validity ends, whatever the network does. Its reason is a {@link LockError}
   * (`ERR_LOCK_LOST`). A release does not abort it. A blocked event loop delays the timer: code that blocks the loop must check
   * {@link Lock.remaining} instead.
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

  /** Remaining validity, ms; 0 once it has ended or the lock was released. */
  remaining(): number {
    return this.#run.remainingUs() / 1000;
  }

  /**
   * With the setting `fencing`, greater than the token of every earlier lock of any client on any resource of these nodes;
   * else `null`. A resource stores the greatest token that it has seen, and rejects writes with a lower one. Holders that do not
   * know yet that they lost the lock then do no harm. Compare tokens with `compareFencingTokens`.
   */
  get fencingToken(): FencingToken | null {
    return this.#run.fence;
  }

  /** The votes behind the lock: those of its last extension if it was extended. Late ones are added as they come. */
  get votes(): LockVotes {
    return this.#run.votes;
  }

  /** Number of voters that may lose the key in a crash without another client getting the lock: see `votesWanted`. */
  get toleratedDataLoss(): number {
    return this.#run.toleratedDataLoss;
  }

  /**
   * Extends the lock to `ttlMs` from now, and resolves with this lock. A lock whose validity has ended is never extended:
   * another client may have held it since.
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
   * Releases the lock on all nodes. Resolves when a quorum has answered, or all nodes have answered or timed out. It never
   * throws: the report says if the lock had expired or its nodes are unreachable. Further calls resolve with the same report.
   */
  release(): Promise<ReleaseReport> {
    return this.#run.release();
  }

  /** Data for logs, without the token, with which any client could release the lock. */
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
