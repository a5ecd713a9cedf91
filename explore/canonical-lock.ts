import {
  type Counters,
  initialState,
  isFencing,
  type LocalTime,
  type LockState,
  localTime,
  MOST_COUNTER,
  members,
  NO_NODES,
  type NodeSet,
  union,
} from '../core/index.js';
import { deviates, deviationNumber, driftAllowanceUs, type Policy } from '../deviations/index.js';
import { type ExploreScope, TICK_US } from './bounds.js';

const BLANK = initialState();
const NO_ANSWERS = BLANK.votes;

/**
 * One lock state for all those that no later step can tell apart: fields that will not be read again are blank, and
 * instants so long ago that they only mean "too late" are all the same. What the lock says of its votes is not kept.
 * That the world is the same with it as without is tested by playing a space both ways.
 */
export function canonicalLock(policy: Policy, bounds: ExploreScope, lock: LockState): LockState {
  const { phase } = lock;
  const acquiring = phase === 'acquiring';
  const fencing = isFencing(lock);
  const trying = acquiring || fencing || phase === 'cleaning' || phase === 'waiting';
  const held = phase === 'held';
  const readsGrants = deviates(policy, 'releases-granted', 'cleans-granted');
  const keepsVotes = acquiring || (readsGrants && (held || phase === 'lost' || phase === 'waiting'));
  const { attempt, extension, hold } = lock;
  const { isOpen } = extension;
  const allowanceUs = Math.abs(driftAllowanceUs(policy, bounds.ttl * TICK_US));
  const lagUs = deviationNumber(policy, 'deadline-counted-after-us') ?? 0;
  const oldest = -(bounds.ttl * TICK_US + allowanceUs + lagUs + TICK_US);
  const clamped = (at: LocalTime, read: boolean): LocalTime =>
    read ? localTime(Math.max(at, oldest)) : BLANK.calledAt;
  return {
    ...lock,
    calledAt: clamped(lock.calledAt, trying && deviates(policy, 'counts-from-call')),
    attempt: {
      ...attempt,
      startedAt: clamped(
        attempt.startedAt,
        (acquiring || fencing) && !deviates(policy, 'counts-from-call', 'counts-from-reply'),
      ),
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
      startedAt: clamped(extension.startedAt, isOpen && !deviates(policy, 'extension-counts-from-reply')),
      votes: isOpen ? extension.votes : NO_ANSWERS,
    },
    counters: canonicalCounters(lock),
  };
}

const UNCOUNTED = BLANK.counters;

/** What is read of the counters in this phase: once the lock is claimed, only what nodes without one are told. */
function canonicalCounters(lock: LockState): Counters {
  const { phase, counters } = lock;
  const fencing = isFencing(lock);
  if (!fencing && phase !== 'acquiring' && !CLAIMED.has(phase)) return UNCOUNTED;
  const joining = counters.missing !== NO_NODES;
  const counts = fencing || joining;
  let named = union(counters.missing, counters.late);
  if (phase === 'reading') named = union(named, counters.votes.no);
  const marks = Array.from({ length: lock.electorate.nodes }, () => 0);
  for (const node of members(named)) marks[node] = counters.marks[node] ?? 0;
  return {
    ...counters,
    votes: counts ? counters.votes : NO_ANSWERS,
    highest: counts ? counters.highest : 0,
    marks,
  };
}

const CLAIMED: ReadonlySet<LockState['phase']> = new Set(['held', 'lost', 'releasing', 'released']);

/** Equal for equal lock states, and only for those. */
export function lockKey(lock: LockState): string {
  const { attempt, votes, hold, extension, release, counters } = lock;
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
    ...[votes, extension.votes, release.votes, counters.votes].flatMap(({ yes, no, failed }) => [yes, no, failed]),
    counters.round,
    counters.counter,
    counters.highest,
    counters.missing,
    counters.late,
    counters.joined,
    ...counters.marks,
  ].join();
}

/** The same with each of its sets of nodes replaced; the marks of nodes are left. */
export function mapNodeSets(lock: LockState, map: (set: NodeSet) => NodeSet): LockState {
  const { attempt, extension, release, counters } = lock;
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
    counters: {
      ...counters,
      votes: tally(counters.votes),
      missing: map(counters.missing),
      late: map(counters.late),
      joined: map(counters.joined),
    },
  };
}

/** More than there are sets of nodes in a lock. */
const NODE_SETS = 24;

/** In which of its sets of nodes a node is, and its mark, as one number. */
export function rolesOf(lock: LockState, node: number): number {
  let roles = 0;
  mapNodeSets(lock, (set) => {
    roles = roles * 2 + ((set >> node) & 1);
    return set;
  });
  return roles + Math.max(0, (lock.counters.marks[node] ?? 0) - MOST_COUNTER) * 2 ** NODE_SETS;
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
