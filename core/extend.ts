import type { ExtensionFailure, Reply } from './event.js';
import { allNodes, size } from './nodes.js';
import { noteLateGrant, releaseOn } from './release.js';
import { extendsItself } from './settings.js';
import { count, NO_ANSWERS, setTally, timeOut, votesOf } from './tally.js';
import { type LocalTime, later } from './time.js';
import { armAnswers, cancelAnswers, send, type Turn } from './turn.js';
import { deadlineOf } from './validity.js';

/** The lock is held until a deadline; it may extend itself from `earliest` on. */
export function hold(turn: Turn, deadline: LocalTime, earliest: LocalTime): void {
  const { policy, s } = turn;
  s.phase = 'held';
  s.hold.deadline = deadline;
  const at = policy.rules.alarm(deadline);
  if (at !== null) turn.arm('expiry', at);
  planAutoExtension(turn, earliest);
}

/** The lock is over by the local clock, whatever the network does. */
export function onExpiry(turn: Turn): void {
  const { policy, s, now } = turn;
  const { deadline } = s.hold;
  if (s.phase !== 'held') return;
  if (now < deadline) {
    turn.arm('expiry', deadline);
    return;
  }
  s.phase = 'lost';
  stopAutoExtension(turn);
  if (!policy.rules.mayExtend(true, 'end')) endOpenRound(turn, 'too-late');
  turn.report({ type: 'lost' });
}

/** The owner releases the lock, before or after its deadline: it is not extended any more. */
export function endHold(turn: Turn): void {
  endOpenRound(turn, 'not-held');
  if (turn.s.phase === 'held') {
    turn.cancel('expiry');
    stopAutoExtension(turn);
  }
}

/** The owner asks for a new TTL, counted from now. */
export function startExtension(turn: Turn, ttlMs: number): void {
  const obstacle = obstacleToExtension(turn);
  if (obstacle === null) startRound(turn, ttlMs);
  else reportNotExtended(turn, obstacle);
}

/** The automatic extension is due. */
export function autoExtend(turn: Turn): void {
  if (obstacleToExtension(turn) === null) startRound(turn, turn.s.ttlMs);
}

/** Why the lock cannot be extended now. */
function obstacleToExtension({ policy, s, now }: Turn): ExtensionFailure | null {
  const { maxExtensions } = policy.settings;
  const { deadline, extensions } = s.hold;
  const late = s.phase === 'lost' || (s.phase === 'held' && now >= deadline);
  if (!policy.rules.mayExtend(late, 'begin')) return 'too-late';
  if (s.phase !== 'held' && s.phase !== 'lost') return 'not-held';
  if (s.extension.isOpen) return 'in-progress';
  return maxExtensions !== null && extensions >= maxExtensions ? 'limit' : null;
}

/** Asks all nodes to keep the keys for longer. */
function startRound(turn: Turn, ttlMs: number): void {
  const { policy, s, now } = turn;
  const round = s.extension.number + 1;
  const { extension } = s;
  extension.number = round;
  extension.isOpen = true;
  extension.ttlMs = ttlMs;
  extension.startedAt = now;
  setTally(extension.votes, NO_ANSWERS);
  send(turn, allNodes(s.electorate.nodes), 'extend', { round, ttlMs: ttlMs + policy.settings.lockDelayMs });
  armAnswers(turn, 'extension');
}

/** A node answered an extension. Each round is counted on its own: a later one never heals an earlier one. */
export function onExtensionVote(turn: Turn, reply: Reply): void {
  const { policy, s } = turn;
  const { command, node } = reply;
  if (command.attempt !== s.attempt.number) return;
  const answer = policy.rules.read(reply.answer, 'extend');
  if (s.extension.isOpen && command.round === s.extension.number) {
    count(s.extension.votes, node, answer);
    decideRound(turn);
  } else if (s.phase === 'held' || s.phase === 'lost') {
    if (command.round === s.hold.votedRound) count(s.votes, node, answer);
  } else if (answer === 'yes' && policy.rules.scripts.extend.onto === 'heals' && policy.rules.releasesLate()) {
    noteLateGrant(turn, node, true);
  }
}

/** The node time-out of the round. */
export function onExtensionTimeout(turn: Turn): void {
  const { s } = turn;
  if (!s.extension.isOpen) return;
  timeOut(s.extension.votes, allNodes(s.electorate.nodes));
  decideRound(turn);
}

function decideRound(turn: Turn): void {
  const { policy, s } = turn;
  const { nodes } = s.electorate;
  const { votes } = s.extension;
  const needed = policy.rules.quorum(nodes, 'extend');
  const verdict = policy.rules.settle(votes, { nodes, needed, wanted: needed });
  if (verdict === 'open') return;
  endRound(turn);
  if (verdict === 'yes') extendHold(turn);
  else failRound(turn, size(votes.no) > nodes - needed ? 'lost' : 'unreachable');
}

/** The round has its votes: the lock is extended, if they came in time and enough is left. */
function extendHold(turn: Turn): void {
  const { policy, s, now } = turn;
  const inTime = policy.rules.mayExtend(now >= s.hold.deadline, 'end');
  const deadline = deadlineOf(turn, 'extend');
  if (!inTime || deadline === null) {
    failRound(turn, 'too-late');
    return;
  }
  s.hold.extensions++;
  s.hold.votedRound = s.extension.number;
  setTally(s.votes, s.extension.votes);
  hold(turn, deadline, later(now, policy.settings.autoExtendSpacingUs));
  turn.report({ type: 'extended', deadline, votes: votesOf(s.votes, s.electorate.needed) });
}

/** A round has failed: the lock keeps its deadline, unless a rule says otherwise. */
function failRound(turn: Turn, reason: ExtensionFailure): void {
  const { policy, s, now } = turn;
  reportNotExtended(turn, reason);
  for (const what of policy.rules.afterFailure(now >= s.hold.deadline)) {
    if (what === 'release') releaseOn(turn, allNodes(s.electorate.nodes));
    else if (s.phase === 'held') giveUp(turn, what === 'give-up');
  }
  if (s.phase === 'held') planAutoExtension(turn, later(now, policy.settings.autoExtendSpacingUs));
}

function giveUp(turn: Turn, early: boolean): void {
  const { policy, s } = turn;
  s.phase = 'lost';
  if (early) {
    if (policy.rules.alarm(s.hold.deadline) !== null) turn.cancel('expiry');
    stopAutoExtension(turn);
  }
  turn.report({ type: 'lost' });
}

/** No more votes are waited for, if a round is in flight. What it set on the nodes stays there. */
function endOpenRound(turn: Turn, reason: ExtensionFailure): void {
  if (!turn.s.extension.isOpen) return;
  endRound(turn);
  reportNotExtended(turn, reason);
}

function endRound(turn: Turn): void {
  turn.s.extension.isOpen = false;
  cancelAnswers(turn, 'extension');
}

/** Tells the owner that the lock keeps the deadline it has. */
function reportNotExtended(turn: Turn, reason: ExtensionFailure): void {
  const { extension, electorate } = turn.s;
  turn.report({ type: 'not-extended', reason, votes: votesOf(extension.votes, electorate.needed) });
}

/** Arms the next automatic extension of a held lock, if it has them and any is left. */
function planAutoExtension(turn: Turn, earliest: LocalTime): void {
  const { policy, s } = turn;
  const { autoExtendAtPpm, autoExtendAtUs, maxExtensions } = policy.settings;
  const { deadline, extensions } = s.hold;
  if (!extendsItself(policy.settings) || (maxExtensions !== null && extensions >= maxExtensions)) return;
  const share = Math.floor((s.ttlMs * (autoExtendAtPpm ?? 0)) / 1000);
  const at = policy.rules.autoExtend(later(deadline, -Math.max(autoExtendAtUs ?? 0, share)), earliest);
  if (at !== null) turn.arm('auto-extend', at);
}

/** A lock that is over does not extend itself any more. */
function stopAutoExtension(turn: Turn): void {
  if (extendsItself(turn.policy.settings)) turn.cancel('auto-extend');
}
