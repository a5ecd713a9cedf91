import type { Answer } from './commands.js';
import type { Effect } from './event.js';
import { allNodes, NO_NODES, type NodeSet, union, without } from './nodes.js';
import type { Policy } from './policy.js';
import type { DraftState } from './state.js';
import { answered } from './tally.js';
import { type LocalTime, later } from './time.js';

/*
 * How the releases of a lock, or of a failed attempt, get to the nodes: all at once, or one after the other.
 */

/** Begins to release on these nodes. */
export function giveBack(policy: Policy, s: DraftState, to: NodeSet, now: LocalTime, effects: Effect[]): void {
  if (policy.releaseSending === 'parallel') {
    sendRelease(s, to, effects);
    return;
  }
  s.toRelease = to;
  giveBackNext(policy, s, now, effects);
}

/** Releases what a failed attempt may have set, on nodes whose SET is still in flight too. */
export function cleanUp(policy: Policy, s: DraftState, last: boolean, now: LocalTime, effects: Effect[]): void {
  if (
    policy.cleanup === 'none' ||
    (policy.cleanupAfter === 'last-attempt' && !last) ||
    (policy.cleanupAfter === 'all-but-last' && last)
  )
    return;
  giveBack(policy, s, nodesToClean(policy, s), now, effects);
}

function nodesToClean({ cleanup }: Policy, s: DraftState): NodeSet {
  if (cleanup === 'granted') return s.votes.yes;
  return cleanup === 'not-refused' ? without(allNodes(s.nodes), s.votes.no) : allNodes(s.nodes);
}

/** Nodes whose answer to a release is still to come, and those that are still to be sent one. */
export function notGivenBack(s: DraftState): NodeSet {
  return union(without(s.releasing, answered(s.releaseVotes)), s.toRelease);
}

/** One node has answered, or has not in time (`error`): goes on to the next one, if it is that one's turn. */
export function goOn(policy: Policy, s: DraftState, answer: Answer, now: LocalTime, effects: Effect[]): void {
  if (s.toRelease === NO_NODES || without(s.releasing, answered(s.releaseVotes)) !== NO_NODES) return;
  if (answer === 'error' && policy.releaseSending === 'until-error') s.toRelease = NO_NODES;
  else giveBackNext(policy, s, now, effects);
}

function giveBackNext(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  const next = (s.toRelease & -s.toRelease) as NodeSet;
  s.toRelease = without(s.toRelease, next);
  sendRelease(s, next, effects);
  armRelease(policy, now, effects);
}

/** The node time-out of what was just sent, for whoever waits for the answers. */
export function armRelease(policy: Policy, now: LocalTime, effects: Effect[]): void {
  if (policy.nodeTimeoutUs !== null) {
    effects.push({ type: 'arm', timer: 'release', at: later(now, policy.nodeTimeoutUs) });
  }
}

/** Sends releases to nodes, and remembers that their answers are due. */
export function sendRelease(s: DraftState, to: NodeSet, effects: Effect[]): void {
  if (to === NO_NODES || s.token === null) return;
  s.releasing = union(s.releasing, to);
  effects.push({
    type: 'send',
    to,
    command: { operation: 'release', attempt: s.attempt, round: 0, token: s.token, ttlMs: 0, counter: 0 },
  });
}
