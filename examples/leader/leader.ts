import { type FencingToken, LockError, type Redlock } from 'lockstep-redlock';

/**
 * Does the work of the leader until `signal` is aborted: the role is lost, or the candidate stops. What it writes shows `token`,
 * so that a resource can refuse a leader that has not noticed yet.
 */
export type Lead = (signal: AbortSignal, token: FencingToken) => Promise<void>;

/** What a candidate runs for. */
export interface Role {
  /** The same for all candidates: the key of the lock. */
  readonly name: string;
  /** How long others wait for a leader that is gone, ms. */
  readonly ttlMs: number;
  readonly lead: Lead;
}

/**
 * Runs for a role until `stop` is aborted: waits for it, leads, keeps it by extending the lock, and runs again when it is lost.
 * When the work ends, the role is released, and the next candidate leads at once.
 *
 * @param redlock - With `fencing: true`.
 * @throws What the work throws, after the role was released; and LockError `ERR_LOCK_CONFIG` or `ERR_LOCK_COUNTERS_LOST`, where no
 * candidate can lead before somebody has seen to it.
 */
export async function runFor({ name, ttlMs, lead }: Role, redlock: Redlock, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    try {
      await redlock.using(name, ttlMs, { retryCount: -1, signal: stop }, async (lost, { fencingToken }) => {
        if (fencingToken === null) throw new Error('the lock has no fencing tokens');
        await lead(AbortSignal.any([lost, stop]), fencingToken);
      });
    } catch (error) {
      if (!stop.aborted || !(error instanceof LockError) || error.code !== 'ERR_LOCK_ABORTED') throw error;
    }
  }
}
