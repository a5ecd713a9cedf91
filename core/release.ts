import type { Answer, Command } from './commands.js';
import type { Effect } from './event.js';
import { endRound, refuse } from './extend.js';
import { allNodes, has, NO_NODES, type NodeSet, oneNode, size, union, without } from './nodes.js';
import type { Policy } from './policy.js';
import type { DraftState } from './state.js';
import { answered, counted, forgotten, timedOut, votesOf } from './tally.js';
import { type LocalTime, later } from './time.js';

/** The owner gives the lock back, before or after its expiry. It no longer holds it from this call on. */
export function startRelease(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (s.extending) {
    endRound(policy, s, effects);
    refuse(s, 'not-held', effects);
  }
  if (s.phase === 'held') {
    effects.push({ type: 'cancel', timer: 'expiry' });
    if (policy.autoExtendAtUs !== null) effects.push({ type: 'cancel', timer: 'auto-extend' });
  }
  s.phase = 'releasing';
  sendRelease(s, policy.releaseTo === 'all' ? allNodes(s.nodes) : s.votes.yes, effects);
  if (policy.nodeTimeoutUs !== null) {
    effects.push({ type: 'arm', timer: 'release', at: later(now, policy.nodeTimeoutUs) });
  }
}

/** Releases what a failed attempt may have set, on nodes whose SET is still in flight too. Nobody waits for it. */
export function cleanUp(policy: Policy, s: DraftState, last: boolean, effects: Effect[]): void {
  if (
    policy.cleanup === 'none' ||
    (policy.cleanupAfter === 'last-attempt' && !last) ||
    (policy.cleanupAfter === 'all-but-last' && last)
  )
    return;
  sendRelease(s, policy.cleanup === 'all' ? allNodes(s.nodes) : s.votes.yes, effects);
}

function sendRelease(s: DraftState, to: NodeSet, effects: Effect[]): void {
  if (to === NO_NODES || s.token === null) return;
  s.releasing = union(s.releasing, to);
  effects.push({
    type: 'send',
    to,
    command: { operation: 'release', attempt: s.attempt, round: 0, token: s.token, ttlMs: 0, counter: 0 },
  });
}

/**
 * A success of an attempt that is over. If the release of that node came first, the key is still there: it is released
 * again. Whether it came first shows in the answer to the release.
 */
export function noteLateGrant(s: DraftState, node: number, effects: Effect[]): void {
  s.votes = counted(s.votes, node, 'yes');
  if (!has(s.releasing, node) || has(s.releaseVotes.yes, node)) return;
  const it = oneNode(node);
  if (has(answered(s.releaseVotes), node)) {
    s.releaseVotes = forgotten(s.releaseVotes, it);
    sendRelease(s, it, effects);
  } else {
    s.lateGrants = union(s.lateGrants, it);
  }
}

/**
 * For the start of the next attempt, since nobody will look at the answers to this one's clean-up any more. Not where the
 * next one has the same token, which a release that comes late would hit.
 */
export function releaseLateGrants(s: DraftState, effects: Effect[]): void {
  sendRelease(s, s.lateGrants, effects);
}

/** A node answered a release or a clean-up. */
export function onReleaseVote(
  policy: Policy,
  s: DraftState,
  node: number,
  command: Command,
  answer: Answer,
  effects: Effect[],
): void {
  const it = oneNode(node);
  if (policy.releaseSteps === 'get-then-del' && command.round === 0 && answer === 'yes') {
    effects.push({ type: 'send', to: it, command: { ...command, round: 1 } });
    return;
  }
  if (command.attempt !== s.attempt) return;
  const setSince = has(s.lateGrants, node) && answer !== 'yes';
  s.lateGrants = without(s.lateGrants, it);
  if (setSince) sendRelease(s, it, effects);
  else s.releaseVotes = counted(s.releaseVotes, node, answer);
  if (s.phase === 'releasing') finishRelease(policy, s, effects);
}

/** The node time-out of the release. */
export function onReleaseTimeout(policy: Policy, s: DraftState, effects: Effect[]): void {
  if (s.phase !== 'releasing') return;
  s.releaseVotes = timedOut(s.releaseVotes, s.releasing);
  finishRelease(policy, s, effects);
}

/** A quorum without our key lets others in, so that is when the owner is told; the rest goes on behind its back. */
function finishRelease(policy: Policy, s: DraftState, effects: Effect[]): void {
  const freed = union(s.releaseVotes.yes, s.releaseVotes.no);
  const open = without(s.releasing, answered(s.releaseVotes));
  if (size(freed) < s.quorum && open !== NO_NODES) return;
  s.phase = 'released';
  if (policy.nodeTimeoutUs !== null) effects.push({ type: 'cancel', timer: 'release' });
  effects.push({ type: 'report', outcome: { type: 'released', votes: votesOf(s.releaseVotes, s.quorum) } });
}
