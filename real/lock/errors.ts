import { printable } from '../../text/printable.js';

/** Why a lock operation failed. Stable: programs may compare it. */
export type LockErrorCode =
  /** Others hold the resource on so many nodes that no quorum is left. */
  | 'ERR_LOCK_CONTENDED'
  /** Too few nodes answered in time, or answered without an error. */
  | 'ERR_LOCK_QUORUM_UNREACHABLE'
  /** The claim has ended: it ran out, was released, or its keys are gone. */
  | 'ERR_LOCK_LOST'
  /** A quorum agreed, but so late that too little of the validity was left. */
  | 'ERR_LOCK_TIMEOUT'
  /** So few nodes know their fencing counter that no token can be had: see {@link Redlock.recoverFencing}. */
  | 'ERR_LOCK_COUNTERS_LOST'
  /** The settings, the nodes or the arguments make no sound lock. */
  | 'ERR_LOCK_CONFIG'
  /** The caller's `AbortSignal`, or `quit`, ended the acquisition. */
  | 'ERR_LOCK_ABORTED';

/** The operation; `hold` is the loss of a lock outside of any call. */
export type LockOperation = 'configure' | 'acquire' | 'extend' | 'release' | 'hold' | 'recover';

/** How each node voted, by its position among the clients given to `new Redlock`, from 0. The lists are frozen: events share them. */
export interface LockVotes {
  readonly granted: readonly number[];
  /** Refused: another client holds the resource there, or (on an extension) the key is not ours. */
  readonly refused: readonly number[];
  /** Not connected, answered with an error, or not in time. */
  readonly failed: readonly number[];
  readonly unanswered: readonly number[];
  /** Number of votes that a lock needs. */
  readonly quorum: number;
  readonly nodes: number;
}

/** Data of a {@link LockError} besides its message. */
export interface LockErrorDetails {
  readonly code: LockErrorCode;
  readonly operation: LockOperation;
  readonly resources?: readonly string[];
  readonly votes?: LockVotes;
  readonly cause?: unknown;
}

/** A lock may be on many resources with long names; the error has all of them as `resources`. */
const LONGEST_MESSAGE = 1_000;

/**
 * The one error that locks throw.
 *
 * @example
 * ```ts
 * try {
 *   await redlock.acquire(['invoice:17'], 10_000);
 * } catch (error) {
 *   if (error instanceof LockError && error.code === 'ERR_LOCK_CONTENDED') return 'somebody else is at it';
 *   throw error;
 * }
 * ```
 */
export class LockError extends Error {
  override readonly name: 'LockError' = 'LockError';
  readonly code: LockErrorCode;
  readonly operation: LockOperation;
  /** The resources of the lock; empty for a mistake in the settings. */
  readonly resources: readonly string[];
  /** The votes at the moment of failure; `null` if no node was asked. */
  readonly votes: LockVotes | null;

  constructor(message: string, details: LockErrorDetails) {
    super(printable(message, LONGEST_MESSAGE), details.cause === undefined ? undefined : { cause: details.cause });
    this.code = details.code;
    this.operation = details.operation;
    this.resources = details.resources ?? [];
    this.votes = details.votes ?? null;
  }
}

/**
 * Shows the callers in the stack of an error that an answer or a timer brought about. Call it in an async function that
 * they await, and throw what it returns.
 */
export function withCallers(error: unknown): unknown {
  if (error instanceof LockError) Error.captureStackTrace(error, withCallers);
  return error;
}

/** A mistake in settings, nodes or arguments, in one sentence. */
export function configError(message: string, operation: LockOperation = 'configure', cause?: unknown): LockError {
  return new LockError(message, { code: 'ERR_LOCK_CONFIG', operation, cause });
}

/** `3 granted (n0 n1 n4), 2 refused (n2 n3), 3 needed`. */
export function describeVotes(votes: LockVotes): string {
  const parts: string[] = [];
  for (const [word, nodes] of [
    ['granted', votes.granted],
    ['refused', votes.refused],
    ['failed', votes.failed],
    ['unanswered', votes.unanswered],
  ] as const) {
    if (nodes.length > 0) parts.push(`${nodes.length} ${word} (${nodes.map((node) => `n${node}`).join(' ')})`);
  }
  return `${parts.join(', ')}, ${votes.quorum} of ${votes.nodes} needed`;
}
