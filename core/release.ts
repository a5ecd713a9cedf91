import type { Answer, Command } from './commands.js';
import type { Effect } from './event.js';
import { endRound, refuse } from './extend.js';
import { armRelease, giveBack, goOn, notGivenBack, sendRelease } from './give-back.js';
import { allNodes, has, NO_NODES, oneNode, size, union, without } from './nodes.js';
import { extendsItself, type Policy } from './policy.js';
import type { DraftState } from './state.js';
import { answered, counted, forgotten, NO_ANSWERS, timedOut, votesOf } from './tally.js';
import { type LocalTime, later } from './time.js';

/** The owner gives the lock back, before or after its expiry. It no longer holds it from this call on. */
export function startRelease(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (s.extending) {
    endRound(policy, s, effects);
    refuse(s, 'not-held', effects);
  }
  if (s.phase === 'held') {
    effects.push({ type: 'cancel', timer: 'expiry' });
    if (extendsItself(policy)) effects.push({ type: 'cancel', timer: 'auto-extend' });
  }
  s.phase = 'releasing';
  tryRelease(policy, s, now, effects);
}

function tryRelease(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  s.releasing = NO_NODES;
  s.releaseVotes = NO_ANSWERS;
  giveBack(policy, s, policy.releaseTo === 'all' ? allNodes(s.nodes) : s.votes.yes, now, effects);
  if (policy.releaseSending === 'parallel') armRelease(policy, now, effects);
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
  now: LocalTime,
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
  if (command.attempt !== s.attempt || !has(s.releasing, node)) return;
  const setSince = has(s.lateGrants, node) && answer !== 'yes';
  s.lateGrants = without(s.lateGrants, it);
  if (setSince) sendRelease(s, it, effects);
  else s.releaseVotes = counted(s.releaseVotes, node, answer);
  goOn(policy, s, answer, now, effects);
  if (s.phase === 'releasing') finishRelease(policy, s, now, effects);
}

/** The node time-out of a release, or the end of the pause before it is tried again. */
export function onReleaseTimeout(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (s.phase === 'releasing' && s.releasing === NO_NODES) {
    tryRelease(policy, s, now, effects);
    return;
  }
  if (s.phase !== 'releasing' && s.phase !== 'cleaning' && s.toRelease === NO_NODES) return;
  s.releaseVotes = timedOut(s.releaseVotes, s.releasing);
  goOn(policy, s, 'error', now, effects);
  if (s.phase === 'releasing') finishRelease(policy, s, now, effects);
}

/** A quorum without our key lets others in, so that is when the owner is told; the rest goes on behind its back. */
function finishRelease(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  const { yes, no } = s.releaseVotes;
  const open = notGivenBack(s);
  const votes = size(policy.releaseRule === 'deleted' ? yes : union(yes, no));
  const hopeless = policy.releaseRule !== 'best-effort' && votes + size(open) < s.quorum;
  const early = policy.settle !== 'all' && policy.releaseSending === 'parallel';
  const decided = early && (votes >= s.quorum || hopeless);
  if (open !== NO_NODES && !decided) return;
  const enough = policy.releaseRule === 'best-effort' || votes >= s.quorum;
  if (policy.nodeTimeoutUs !== null) effects.push({ type: 'cancel', timer: 'release' });
  s.releaseTries++;
  if (!enough && (policy.releaseTries === null || s.releaseTries < policy.releaseTries)) {
    s.releasing = NO_NODES;
    effects.push({ type: 'arm', timer: 'release', at: later(now, policy.retryDelayUs) });
    return;
  }
  s.phase = 'released';
  effects.push({ type: 'report', outcome: { type: 'released', votes: votesOf(s.releaseVotes, s.quorum), enough } });
}
