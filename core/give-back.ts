import type { Answer } from './commands.js';
import { NO_NODES, type NodeSet, union, without } from './nodes.js';
import type { DraftState } from './state.js';
import { answered } from './tally.js';
import { armAnswers, type Turn } from './turn.js';

/*
 * How the releases of a lock, or of a failed attempt, get to the nodes: to all at once, unless a rule says otherwise.
 */

/** Begins to release on these nodes; says whether that goes step by step, with a time-out for each. */
export function release(turn: Turn, to: NodeSet): boolean {
  const { policy, s } = turn;
  const first = policy.rules.next(to, NO_NODES, 'yes', 'release') ?? to;
  s.toRelease = without(to, first);
  sendRelease(turn, first);
  if (first === to) return false;
  armAnswers(turn, 'release');
  return true;
}

/** One node has answered, or has not in time (`error`): goes on to those that were not sent their release yet. */
export function continueRelease(turn: Turn, last: Answer): void {
  const { policy, s } = turn;
  if (s.toRelease === NO_NODES) return;
  const to = policy.rules.next(s.toRelease, without(s.releasing, answered(s.releaseVotes)), last, 'release');
  if (to === NO_NODES) return;
  s.toRelease = to === null ? NO_NODES : without(s.toRelease, to);
  if (to === null) return;
  sendRelease(turn, to);
  armAnswers(turn, 'release');
}

/** Nodes whose answer to a release is still to come, and those that are still to be sent one. */
export function unreleased(s: DraftState): NodeSet {
  return union(without(s.releasing, answered(s.releaseVotes)), s.toRelease);
}

/** Sends releases to nodes, and remembers that their answers are due. */
export function sendRelease({ s, effects }: Turn, to: NodeSet): void {
  if (to === NO_NODES || s.token === null) return;
  s.releasing = union(s.releasing, to);
  const { attempt, token } = s;
  effects.push({ type: 'send', to, command: { operation: 'release', attempt, round: 0, token, ttlMs: 0, counter: 0 } });
}
