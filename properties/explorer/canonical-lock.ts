import { initialState, type LocalTime, type LockState, localTime, type NodeSet } from '../../core/index.js';
import { driftAllowanceUs, type Policy } from '../../deviations/index.js';
import { type ExploreBounds, TICK_US } from './bounds.js';

const BLANK = initialState();
const NONE = BLANK.asked;
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
  const { extending } = lock;
  const allowanceUs = Math.abs(driftAllowanceUs(policy, bounds.ttl * TICK_US));
  const oldest = -(bounds.ttl * TICK_US + allowanceUs + policy.deadlineLagUs + TICK_US);
  const clamped = (at: LocalTime, read: boolean): LocalTime =>
    read ? localTime(Math.max(at, oldest)) : BLANK.startedAt;
  return {
    ...lock,
    // Why an attempt failed is only told of.
    failure: phase === 'cleaning' || phase === 'waiting' ? 'contended' : null,
    startedAt: clamped(lock.startedAt, acquiring && policy.validityFrom === 'attempt'),
    calledAt: clamped(lock.calledAt, trying && policy.validityFrom === 'call'),
    asked: acquiring ? lock.asked : NONE,
    votes: acquiring ? lock.votes : keepsVotes ? { ...NO_ANSWERS, yes: lock.votes.yes } : NO_ANSWERS,
    deadline: held ? localTime(Math.max(lock.deadline, 0)) : BLANK.deadline,
    votedRound: keepsVotes ? lock.votedRound : BLANK.votedRound,
    extensionTtlMs: extending ? lock.extensionTtlMs : 0,
    extensionStartedAt: clamped(lock.extensionStartedAt, extending && policy.extendFrom === 'start'),
    roundVotes: extending ? lock.roundVotes : NO_ANSWERS,
  };
}

/** Equal for equal lock states, and only for those. */
export function lockKey(lock: LockState): string {
  const { votes, roundVotes, releaseVotes } = lock;
  return [
    lock.phase,
    lock.attempt,
    lock.token,
    lock.startedAt,
    lock.calledAt,
    lock.asked,
    lock.deadline,
    lock.extending,
    lock.extensionRounds,
    lock.votedRound,
    lock.extensions,
    lock.extensionTtlMs,
    lock.extensionStartedAt,
    lock.failure,
    lock.toRelease,
    lock.releaseTries,
    lock.releasing,
    lock.lateGrants,
    ...[votes, roundVotes, releaseVotes].flatMap(({ yes, no, failed }) => [yes, no, failed]),
  ].join();
}

/** The same with each of its sets of nodes replaced. */
export function mapNodeSets(lock: LockState, map: (set: NodeSet) => NodeSet): LockState {
  const tally = ({ yes, no, failed }: LockState['votes']) => ({ yes: map(yes), no: map(no), failed: map(failed) });
  return {
    ...lock,
    asked: map(lock.asked),
    votes: tally(lock.votes),
    roundVotes: tally(lock.roundVotes),
    toRelease: map(lock.toRelease),
    releasing: map(lock.releasing),
    releaseVotes: tally(lock.releaseVotes),
    lateGrants: map(lock.lateGrants),
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
  const { yes, no, failed } = lock.releaseVotes;
  return {
    ...lock,
    releasing: rest(lock.releasing),
    releaseVotes: { yes: rest(yes), no: rest(no), failed: rest(failed) },
    lateGrants: rest(lock.lateGrants),
  };
}
