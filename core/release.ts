import type { Reply } from './event.js';
import { endRound, refuse, stopAutoExtension } from './extend.js';
import { continueRelease, release, sendRelease, unreleased } from './give-back.js';
import { allNodes, has, NO_NODES, oneNode, union, without } from './nodes.js';
import { answered, counted, forgotten, NO_ANSWERS, timedOut, votesOf } from './tally.js';
import { later } from './time.js';
import { armAnswers, cancelAnswers, type Turn } from './turn.js';

/** The owner gives the lock back, before or after its expiry. It no longer holds it from this call on. */
export function startRelease(turn: Turn): void {
  const { s, effects } = turn;
  if (s.extending) {
    endRound(turn);
    refuse(turn, 'not-held');
  }
  if (s.phase === 'held') {
    effects.push({ type: 'cancel', timer: 'expiry' });
    stopAutoExtension(turn);
  }
  s.phase = 'releasing';
  tryRelease(turn);
}

function tryRelease(turn: Turn): void {
  const { policy, s } = turn;
  s.releasing = NO_NODES;
  s.releaseVotes = NO_ANSWERS;
  const isTimed = release(turn, policy.rules.releaseTo('release', s.votes, allNodes(s.nodes)));
  if (!isTimed) armAnswers(turn, 'release');
}

/**
 * A success of an attempt that is over. If the release of that node came first, the key is still there: it is released
 * again. Whether it came first shows in the answer to the release.
 */
export function noteLateGrant(turn: Turn, node: number): void {
  const { s } = turn;
  s.votes = counted(s.votes, node, 'yes');
  if (!has(s.releasing, node) || has(s.releaseVotes.yes, node)) return;
  const it = oneNode(node);
  if (has(answered(s.releaseVotes), node)) {
    s.releaseVotes = forgotten(s.releaseVotes, it);
    sendRelease(turn, it);
  } else s.lateGrants = union(s.lateGrants, it);
}

/**
 * For the start of the next attempt, since nobody will look at the answers to this one's clean-up any more. Not where the
 * next one has the same token, which a release that comes late would hit.
 */
export function releaseLateGrants(turn: Turn): void {
  sendRelease(turn, turn.s.lateGrants);
}

/** A node answered a release or a clean-up. */
export function onReleaseVote(turn: Turn, { answer, command, node }: Reply): void {
  const { policy, s, effects } = turn;
  const it = oneNode(node);
  if (answer === 'yes' && command.round + 1 < policy.rules.scripts.release.steps) {
    effects.push({ type: 'send', to: it, command: { ...command, round: command.round + 1 } });
    return;
  }
  if (command.attempt !== s.attempt || !has(s.releasing, node)) return;
  const setSince = has(s.lateGrants, node) && answer !== 'yes';
  s.lateGrants = without(s.lateGrants, it);
  if (setSince) sendRelease(turn, it);
  else s.releaseVotes = counted(s.releaseVotes, node, answer);
  continueRelease(turn, answer);
  if (s.phase === 'releasing') finishRelease(turn);
}

/** The node time-out of a release, or the end of the pause before it is tried again. */
export function onReleaseTimeout(turn: Turn): void {
  const { s } = turn;
  if (s.phase === 'releasing' && s.releasing === NO_NODES) {
    tryRelease(turn);
    return;
  }
  if (s.phase !== 'releasing' && s.phase !== 'cleaning' && s.toRelease === NO_NODES) return;
  s.releaseVotes = timedOut(s.releaseVotes, s.releasing);
  continueRelease(turn, 'error');
  if (s.phase === 'releasing') finishRelease(turn);
}

/** A quorum without our key lets others in, so that is when the owner is told; the rest goes on behind its back. */
function finishRelease(turn: Turn): void {
  const { policy, s, now, effects } = turn;
  const { releaseTries, retryDelayUs } = policy.settings;
  const freed = policy.rules.freed('release', s.releaseVotes, unreleased(s), s.quorum);
  if (freed === 'open') return;
  cancelAnswers(turn, 'release');
  s.releaseTries++;
  if (freed === 'short' && (releaseTries === null || s.releaseTries < releaseTries)) {
    s.releasing = NO_NODES;
    effects.push({ type: 'arm', timer: 'release', at: later(now, retryDelayUs) });
    return;
  }
  s.phase = 'released';
  const votes = votesOf(s.releaseVotes, s.quorum);
  effects.push({ type: 'report', outcome: { type: 'released', votes, enough: freed === 'enough' } });
}
