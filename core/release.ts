import type { Answer, Command } from './commands.js';
import type { Reply } from './event.js';
import { allNodes, has, NO_NODES, type NodeSet, oneNode, union, without } from './nodes.js';
import type { DraftState } from './state.js';
import { answered, count, NO_ANSWERS, setTally, timeOut, votesOf, withdraw } from './tally.js';
import { later } from './time.js';
import { armAnswers, cancelAnswers, send, type Turn } from './turn.js';

/** The owner releases the lock, and no longer holds it from this call on. */
export function startRelease(turn: Turn): void {
  turn.s.phase = 'releasing';
  tryRelease(turn);
}

function tryRelease(turn: Turn): void {
  const { policy, s } = turn;
  s.release.sent = NO_NODES;
  setTally(s.release.votes, NO_ANSWERS);
  const isTimed = releaseOn(turn, policy.rules.releaseTo('release', s.votes, allNodes(s.electorate.nodes)));
  if (!isTimed) armAnswers(turn, 'release');
}

/** Deletes what is ours on these nodes; says whether that goes step by step, with a time-out for each. */
export function releaseOn(turn: Turn, to: NodeSet): boolean {
  const { policy, s } = turn;
  const first = policy.rules.next(to, NO_NODES, 'yes', 'release') ?? to;
  s.release.todo = without(to, first);
  sendRelease(turn, first);
  if (first === to) return false;
  armAnswers(turn, 'release');
  return true;
}

/** Sends releases to nodes, and remembers that their answers are due. */
export function sendRelease(turn: Turn, to: NodeSet): void {
  const { release: round } = turn.s;
  round.sent = union(round.sent, to);
  send(turn, to, 'release', {});
}

/** Sends a node a release with the token of a command, which may be one of an earlier attempt. */
export function sendReleaseOf(turn: Turn, { attempt, token, counter }: Command, node: number, round: number): void {
  turn.send(oneNode(node), { operation: 'release', attempt, round, token, ttlMs: 0, counter });
}

/** A node answered a release or a clean-up. */
export function onReleaseVote(turn: Turn, { answer, command, node }: Reply): void {
  const { policy, s } = turn;
  const it = oneNode(node);
  if (answer === 'yes' && command.round === 0 && policy.rules.scripts.release.asks !== null) {
    sendReleaseOf(turn, command, node, 1);
    return;
  }
  if (command.attempt !== s.attempt.number || !has(s.release.sent, node)) return;
  const setSince = has(s.release.lateGrants, node) && answer !== 'yes';
  s.release.lateGrants = without(s.release.lateGrants, it);
  if (setSince) sendRelease(turn, it);
  else count(s.release.votes, node, answer);
  continueRelease(turn, answer);
}

/** The node time-out of a release, or the end of the pause before it is tried again. */
export function onReleaseTimeout(turn: Turn): void {
  const { phase, release: round } = turn.s;
  if (phase === 'releasing' && round.sent === NO_NODES) {
    tryRelease(turn);
    return;
  }
  if (phase !== 'releasing' && phase !== 'cleaning' && round.todo === NO_NODES) return;
  timeOut(round.votes, round.sent);
  continueRelease(turn, 'error');
}

/** One node has answered, or has not in time (`error`): goes on to those that were not sent their release yet. */
function continueRelease(turn: Turn, last: Answer): void {
  const { policy, s } = turn;
  const { todo, sent, votes } = s.release;
  const to = policy.rules.next(todo, without(sent, answered(votes)), last, 'release');
  s.release.todo = to === null ? NO_NODES : without(todo, to);
  if (to !== null && to !== NO_NODES) {
    sendRelease(turn, to);
    armAnswers(turn, 'release');
  }
  if (s.phase === 'releasing') finishRelease(turn);
}

/** A quorum without our key lets others acquire the lock: the release is reported then, and the rest goes on without the owner. */
function finishRelease(turn: Turn): void {
  const { policy, s, now } = turn;
  const { releaseTries, retryDelayUs } = policy.settings;
  const { needed } = s.electorate;
  const freed = policy.rules.freed('release', s.release.votes, unreleased(s), needed);
  if (freed === 'open') return;
  cancelAnswers(turn, 'release');
  s.release.tries++;
  if (freed === 'short' && (releaseTries === null || s.release.tries < releaseTries)) {
    s.release.sent = NO_NODES;
    turn.arm('release', later(now, retryDelayUs));
    return;
  }
  s.phase = 'released';
  turn.report({ type: 'released', votes: votesOf(s.release.votes, needed), enough: freed === 'enough' });
}

/** Nodes whose answer to a release is still to come, and those that are still to be sent one. */
export function unreleased({ release: { sent, todo, votes } }: DraftState): NodeSet {
  return union(without(sent, answered(votes)), todo);
}

/**
 * A success of an attempt that is over. If the release of that node came first, the key is still there: it is released
 * again. Whether it came first shows in the answer to the release, unless there was a key already that this deleted.
 */
export function noteLateGrant(turn: Turn, node: number, hadKey = false): void {
  const { s } = turn;
  const { sent, votes } = s.release;
  count(s.votes, node, 'yes');
  if (!has(sent, node) || (has(votes.yes, node) && !hadKey)) return;
  const it = oneNode(node);
  if (has(answered(votes), node)) {
    withdraw(votes, it);
    sendRelease(turn, it);
  } else s.release.lateGrants = union(s.release.lateGrants, it);
}
