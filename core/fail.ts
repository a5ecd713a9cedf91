import type { FailureReason } from './event.js';
import { isFencing } from './fencing.js';
import { allNodes, NO_NODES, type NodeSet, without } from './nodes.js';
import { releaseOn, unreleased } from './release.js';
import { type Tally, votesOf } from './tally.js';
import { type LocalTime, later } from './time.js';
import { armAnswers, cancelAnswers, type Turn } from './turn.js';

/*
 * How an attempt ends that did not get the lock: it is cleaned up, and the next one follows after a pause, or none.
 */

/** Releases what the attempt may have set, on nodes whose SET is still in flight too, and goes on to the pause. */
export function failAttempt(turn: Turn, reason: FailureReason): void {
  const { policy, s } = turn;
  cancelAnswers(turn, 'attempt');
  if (policy.rules.quits(reason, s.votes)) {
    failAcquisition(turn, reason);
    return;
  }
  s.attempt.failure = reason;
  const isTimed = cleanUp(turn, isLast(turn, nextAttemptAt(turn)), NO_NODES);
  if (isCleanedUp(turn)) pause(turn);
  else {
    s.phase = 'cleaning';
    if (!isTimed) armAnswers(turn, 'release');
  }
}

/** Cleans up after a failed attempt, but for the nodes `done`; says whether that is timed already. */
function cleanUp(turn: Turn, last: boolean, done: NodeSet): boolean {
  const { policy, s } = turn;
  const to = policy.rules.releaseTo(last ? 'last clean-up' : 'clean-up', s.votes, allNodes(s.electorate.nodes));
  const rest = without(to, done);
  return rest !== NO_NODES && releaseOn(turn, rest);
}

function isCleanedUp({ policy, s }: Turn): boolean {
  return policy.rules.freed('clean-up', s.release.votes, unreleased(s), s.electorate.needed) !== 'open';
}

/** A node has answered the clean-up that is awaited, or has not in time. */
export function onCleanedUp(turn: Turn): void {
  if (!isCleanedUp(turn)) return;
  cancelAnswers(turn, 'release');
  pause(turn);
}

/** The attempt is over and cleaned up: the next one follows after a pause, or none. */
function pause(turn: Turn): void {
  const { policy, s } = turn;
  const at = nextAttemptAt(turn);
  if (!policy.rules.pausesAfter(isLast(turn, at))) {
    failAcquisition(turn, s.attempt.failure ?? 'contended');
    return;
  }
  s.phase = 'waiting';
  turn.arm('retry', at);
}

function nextAttemptAt({ policy, s, now }: Turn): LocalTime {
  return later(now, policy.rules.pause(policy.settings, s.attempt.jitterPpm));
}

/** Whether no attempt may begin at `at` any more. */
export function isLast({ policy, s }: Turn, at: LocalTime): boolean {
  const { tries, acquireTimeoutUs } = policy.settings;
  if (tries !== null && s.attempt.number + 1 >= tries) return true;
  return acquireTimeoutUs !== null && at > later(s.calledAt, acquireTimeoutUs);
}

/** The acquisition has failed. */
export function failAcquisition(turn: Turn, reason: FailureReason, answers: Tally = turn.s.votes): void {
  const { attempt, electorate } = turn.s;
  turn.s.phase = 'failed';
  attempt.failure = null;
  const votes = votesOf(answers, electorate.needed);
  turn.report({ type: 'failed', reason, attempts: attempt.number + 1, votes });
}

/** No attempt of any client can succeed before an operator has given the nodes a counter again. */
export function failOnLostCounters(turn: Turn): void {
  cancelAnswers(turn, 'attempt');
  cleanUp(turn, true, NO_NODES);
  failAcquisition(turn, 'counters-lost', turn.s.counters.votes);
}

/** The owner gives up while the lock is being acquired: whatever was set is released, nothing more is tried. */
export function abandon(turn: Turn): void {
  const { policy, s } = turn;
  if (s.phase === 'acquiring' || isFencing(s)) {
    cancelAnswers(turn, 'attempt');
    cleanUp(turn, true, NO_NODES);
  } else if (s.phase === 'cleaning' || s.phase === 'waiting') {
    turn.cancel(s.phase === 'cleaning' ? 'release' : 'retry');
    // What the clean-up of this attempt left to a later one.
    cleanUp(turn, true, policy.rules.releaseTo('clean-up', s.votes, allNodes(s.electorate.nodes)));
  } else return;
  failAcquisition(turn, 'abandoned');
}
