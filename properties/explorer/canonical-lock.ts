import { initialState, type LocalTime, type LockState, localTime, type NodeSet } from '../../core/index.js';
import { driftAllowanceUs, type Policy } from '../../deviations/index.js';
import { type ExploreBounds, TICK_US } from './bounds.js';

const BLANK = initialState();
const NO_ANSWERS = BLANK.votes;

/**
 * One lock state for all those that no later step can tell apart: fields that will not be read again are blank, and
 * instants so long ago that they only mean "too late" are all the same. What the lock says of its votes is not kept.
 * That the world is the same with it as without is tested by playing a space both ways.
 */
export function canonicalLock(policy: Policy, bounds: ExploreBounds, lock: LockState): LockState {
  const { phase } = lock;
  const acquiring = phase === 'acquiring';
  const trying = acquiring || phase === 'cleaning' || phase === 'waiting';
  const held = phase === 'held';
  const readsGrants = policy.releaseTo === 'granted' || policy.cleanup === 'granted';
  const keepsVotes = acquiring || (readsGrants && (held || phase === 'lost' || phase === 'waiting'));
  const { attempt, extension, hold } = lock;
  const { isOpen } = extension;
  const allowanceUs = Math.abs(driftAllowanceUs(policy, bounds.ttl * TICK_US));
  const oldest = -(bounds.ttl * TICK_US + allowanceUs + policy.deadlineLagUs + TICK_US);
  const clamped = (at: LocalTime, read: boolean): LocalTime =>
    read ? localTime(Math.max(at, oldest)) : BLANK.calledAt;
  return {
    ...lock,
    calledAt: clamped(lock.calledAt, trying && policy.validityFrom === 'call'),
    attempt: {
      ...attempt,
      startedAt: clamped(attempt.startedAt, acquiring && policy.validityFrom === 'attempt'),
      asked: acquiring ? attempt.asked : BLANK.attempt.asked,
      // Why an attempt failed is only told of.
      failure: phase === 'cleaning' || phase === 'waiting' ? 'contended' : null,
    },
    votes: acquiring ? lock.votes : keepsVotes ? { ...NO_ANSWERS, yes: lock.votes.yes } : NO_ANSWERS,
    hold: {
      ...hold,
      deadline: held ? localTime(Math.max(hold.deadline, 0)) : BLANK.hold.deadline,
      votedRound: keepsVotes ? hold.votedRound : BLANK.hold.votedRound,
    },
    extension: {
      ...extension,
      ttlMs: isOpen ? extension.ttlMs : 0,
      startedAt: clamped(extension.startedAt, isOpen && policy.extendFrom === 'start'),
      votes: isOpen ? extension.votes : NO_ANSWERS,
    },
  };
}

/** Equal for equal lock states, and only for those. */
export function lockKey(lock: LockState): string {
  const { attempt, votes, hold, extension, release } = lock;
  return [
    lock.phase,
    attempt.number,
    attempt.token,
    attempt.startedAt,
    lock.calledAt,
    attempt.asked,
    hold.deadline,
    extension.isOpen,
    extension.number,
    hold.votedRound,
    hold.extensions,
    extension.ttlMs,
    extension.startedAt,
    attempt.failure,
    release.todo,
    release.tries,
    release.sent,
    release.lateGrants,
    ...[votes, extension.votes, release.votes].flatMap(({ yes, no, failed }) => [yes, no, failed]),
  ].join();
}

/** The same with each of its sets of nodes replaced. */
export function mapNodeSets(lock: LockState, map: (set: NodeSet) => NodeSet): LockState {
  const { attempt, extension, release } = lock;
  const tally = ({ yes, no, failed }: LockState['votes']) => ({ yes: map(yes), no: map(no), failed: map(failed) });
  return {
    ...lock,
    attempt: { ...attempt, asked: map(attempt.asked) },
    votes: tally(lock.votes),
    extension: { ...extension, votes: tally(extension.votes) },
    release: {
      ...release,
      todo: map(release.todo),
      sent: map(release.sent),
      votes: tally(release.votes),
      lateGrants: map(release.lateGrants),
    },
  };
}

/** In which of its sets of nodes a node is, as one number. */
export function rolesOf(lock: LockState, node: number): number {
  let roles = 0;
  mapNodeSets(lock, (set) => {
    roles = roles * 2 + ((set >> node) & 1);
    return set;
  });
  return roles;
}

/**
 * The same without the answers of a node to the release of an attempt that is over. They are read again only when the
 * node's vote arrives late, which it cannot when nothing is on its way between the two.
 */
export function withoutNode(lock: LockState, node: number): LockState {
  if (lock.phase !== 'failed' && lock.phase !== 'waiting' && lock.phase !== 'released') return lock;
  const rest = (set: NodeSet) => (set & ~(1 << node)) as NodeSet;
  const { sent, votes, lateGrants } = lock.release;
  const { yes, no, failed } = votes;
  return {
    ...lock,
    release: {
      ...lock.release,
      sent: rest(sent),
      votes: { yes: rest(yes), no: rest(no), failed: rest(failed) },
      lateGrants: rest(lateGrants),
    },
  };
}
