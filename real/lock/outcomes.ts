import type { Outcome, Votes } from '../../core/index.js';
import { describeVotes, LockError, type LockErrorCode, type LockVotes } from './errors.js';

/** The lock an error is about. */
interface LockSubject {
  readonly resources: readonly string[];
  votesFrom(votes: Votes): LockVotes;
}

/** The error for an acquisition that the core reported as failed. */
export function acquisitionFailed(lock: LockSubject, outcome: Outcome & { type: 'failed' }, cause: unknown): LockError {
  const votes = lock.votesFrom(outcome.votes);
  const name = lock.resources.join(', ');
  const attempts = outcome.attempts === 1 ? 'in 1 attempt' : `in ${outcome.attempts} attempts`;
  const tally = `${describeVotes(votes)} (last attempt)`;
  const make = (code: LockErrorCode, message: string, why?: unknown) =>
    new LockError(message, { code, operation: 'acquire', resources: lock.resources, votes, cause: why });
  switch (outcome.reason) {
    case 'contended':
      return make('ERR_LOCK_CONTENDED', `${name} is held by others, ${attempts}: ${tally}.`);
    case 'unreachable':
      return make(
        'ERR_LOCK_QUORUM_UNREACHABLE',
        // With the votes in, what was missing is what fencing asks for next.
        votes.granted.length >= votes.quorum
          ? `No quorum told its fencing counter for ${name} ${attempts}. The votes: ${tally}.`
          : `No quorum for ${name} ${attempts}: ${tally}.`,
        cause,
      );
    case 'too-slow':
      return make('ERR_LOCK_TIMEOUT', `The quorum for ${name} came too late to be valid, ${attempts}: ${tally}.`);
    case 'counters-lost':
      return make('ERR_LOCK_COUNTERS_LOST', `No fencing token for ${name}: ${describeLoss(votes)}`, cause);
    case 'abandoned':
      return make('ERR_LOCK_ABORTED', `The acquisition of ${name} was aborted.`, cause);
  }
}

function describeLoss({ refused, quorum, nodes }: LockVotes): string {
  const lost = refused.map((node) => `n${node}`).join(', ');
  return `${lost} of ${nodes} nodes do not know their counter, and ${quorum} have to. On new nodes, and after more have lost theirs than rejoin by themselves, call recoverFencing.`;
}

/** The error for an extension that the core refused or that found no quorum. */
export function extensionFailed(
  lock: LockSubject & { readonly held: boolean },
  outcome: Outcome & { type: 'not-extended' },
  maxExtensions: number | null,
  cause: unknown,
): LockError {
  const votes = lock.votesFrom(outcome.votes);
  const name = lock.resources.join(', ');
  const make = (code: LockErrorCode, message: string, why?: unknown) =>
    new LockError(message, { code, operation: 'extend', resources: lock.resources, votes, cause: why });
  switch (outcome.reason) {
    case 'not-held':
      return make('ERR_LOCK_LOST', `${name} cannot be extended: it has been released.`);
    case 'in-progress':
      return make('ERR_LOCK_TIMEOUT', `${name} cannot be extended: another extension is in progress.`);
    case 'limit':
      return make('ERR_LOCK_CONFIG', `${name} cannot be extended: maxExtensions is ${maxExtensions}.`);
    case 'lost':
      return make('ERR_LOCK_LOST', `${name} cannot be extended, its keys are gone: ${describeVotes(votes)}.`);
    case 'unreachable':
      return make('ERR_LOCK_QUORUM_UNREACHABLE', `No quorum to extend ${name}: ${describeVotes(votes)}.`, cause);
    case 'too-late':
      return lock.held
        ? make('ERR_LOCK_TIMEOUT', `The quorum to extend ${name} came too late for so short a TTL.`)
        : make('ERR_LOCK_LOST', `${name} cannot be extended: its validity had ended.`);
  }
}

/** The reason that `lock.signal` aborts with. */
export function lockLost(lock: LockSubject & { readonly votes: LockVotes }, cause: LockError | null): LockError {
  return new LockError(`The validity of ${lock.resources.join(', ')} has ended.`, {
    code: 'ERR_LOCK_LOST',
    operation: 'hold',
    resources: lock.resources,
    votes: lock.votes,
    cause: cause ?? undefined,
  });
}
