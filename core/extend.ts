import type { ExtensionFailure, Reply } from './event.js';
import { release } from './give-back.js';
import { allNodes, size } from './nodes.js';
import { extendsItself } from './settings.js';
import { counted, NO_ANSWERS, timedOut, votesOf } from './tally.js';
import { type LocalTime, later } from './time.js';
import { armAnswers, cancelAnswers, type Turn } from './turn.js';
import { deadlineOf } from './validity.js';

/** The lock is held until a deadline; it may extend itself from `earliest` on. */
export function hold(turn: Turn, deadline: LocalTime, earliest: LocalTime): void {
  const { policy, s, effects } = turn;
  s.phase = 'held';
  s.deadline = deadline;
  const at = policy.rules.alarm(deadline);
  if (at !== null) effects.push({ type: 'arm', timer: 'expiry', at });
  planAutoExtension(turn, earliest);
}

/** The lock is over by the local clock, whatever the network does. */
export function onExpiry(turn: Turn): void {
  const { policy, s, now, effects } = turn;
  if (s.phase !== 'held') return;
  if (now < s.deadline) {
    effects.push({ type: 'arm', timer: 'expiry', at: s.deadline });
    return;
  }
  s.phase = 'lost';
  stopAutoExtension(turn);
  if (s.extending && !policy.rules.mayExtend(true, 'end')) {
    endRound(turn);
    refuse(turn, 'too-late');
  }
  effects.push({ type: 'report', outcome: { type: 'lost' } });
}

/** The owner asks for a new TTL, counted from now. */
export function startExtension(turn: Turn, ttlMs: number): void {
  const obstacle = whyNot(turn);
  if (obstacle === null) startRound(turn, ttlMs);
  else refuse(turn, obstacle);
}

/** The automatic extension is due. */
export function autoExtend(turn: Turn): void {
  if (whyNot(turn) === null) startRound(turn, turn.s.ttlMs);
}

function whyNot({ policy, s, now }: Turn): ExtensionFailure | null {
  const { maxExtensions } = policy.settings;
  const late = s.phase === 'lost' || (s.phase === 'held' && now >= s.deadline);
  if (!policy.rules.mayExtend(late, 'begin')) return 'too-late';
  if (s.phase !== 'held' && s.phase !== 'lost') return 'not-held';
  if (s.extending) return 'in-progress';
  return maxExtensions !== null && s.extensions >= maxExtensions ? 'limit' : null;
}

/** Asks all nodes to keep the keys for longer. */
function startRound(turn: Turn, newTtlMs: number): void {
  const { policy, s, now, effects } = turn;
  const { attempt, token } = s;
  if (token === null) return;
  s.extending = true;
  s.extensionTtlMs = newTtlMs;
  s.extensionStartedAt = now;
  s.roundVotes = NO_ANSWERS;
  const round = s.extensionRounds++;
  const ttlMs = newTtlMs + policy.settings.lockDelayMs;
  const to = allNodes(s.nodes);
  effects.push({ type: 'send', to, command: { operation: 'extend', attempt, round, token, ttlMs, counter: 0 } });
  armAnswers(turn, 'extension');
}

/** A node answered an extension. Each round is counted on its own: a later one never heals an earlier one. */
export function onExtensionVote(turn: Turn, reply: Reply): void {
  const { policy, s } = turn;
  const { command, node } = reply;
  if (command.attempt !== s.attempt) return;
  const answer = policy.rules.read(reply.answer, 'extend');
  if (s.extending && command.round === s.extensionRounds - 1) {
    s.roundVotes = counted(s.roundVotes, node, answer);
    decide(turn);
  } else if (command.round === s.votedRound && (s.phase === 'held' || s.phase === 'lost')) {
    s.votes = counted(s.votes, node, answer);
  }
}

/** The node time-out of the round. */
export function onExtensionTimeout(turn: Turn): void {
  const { s } = turn;
  if (!s.extending) return;
  s.roundVotes = timedOut(s.roundVotes, allNodes(s.nodes));
  decide(turn);
}

function decide(turn: Turn): void {
  const { policy, s } = turn;
  const { nodes, roundVotes } = s;
  const needed = policy.rules.quorum(nodes, 'extend');
  const verdict = policy.rules.settle(roundVotes, { nodes, needed, wanted: needed });
  if (verdict === 'open') return;
  endRound(turn);
  if (verdict === 'yes') succeed(turn);
  else failRound(turn, size(roundVotes.no) > nodes - needed ? 'lost' : 'unreachable');
}

/** The round has its votes: the lock is extended, if they came in time and enough is left. */
function succeed(turn: Turn): void {
  const { policy, s, now, effects } = turn;
  const inTime = policy.rules.mayExtend(now >= s.deadline, 'end');
  const deadline = deadlineOf(turn, 'extend');
  if (!inTime || deadline === null) {
    failRound(turn, 'too-late');
    return;
  }
  s.extensions++;
  s.votedRound = s.extensionRounds - 1;
  s.votes = s.roundVotes;
  hold(turn, deadline, later(now, policy.settings.autoExtendSpacingUs));
  effects.push({ type: 'report', outcome: { type: 'extended', deadline, votes: votesOf(s.votes, s.quorum) } });
}

/** A round has come to nothing: the lock keeps the deadline it has, unless a rule says otherwise. */
function failRound(turn: Turn, reason: ExtensionFailure): void {
  const { policy, s, now } = turn;
  refuse(turn, reason);
  for (const what of policy.rules.afterFailure(now >= s.deadline)) {
    if (what === 'release') release(turn, allNodes(s.nodes));
    else if (s.phase === 'held') giveUp(turn, what === 'give-up');
  }
  if (s.phase === 'held') planAutoExtension(turn, later(now, policy.settings.autoExtendSpacingUs));
}

function giveUp(turn: Turn, early: boolean): void {
  const { policy, s, effects } = turn;
  s.phase = 'lost';
  if (early) {
    if (policy.rules.alarm(s.deadline) !== null) effects.push({ type: 'cancel', timer: 'expiry' });
    stopAutoExtension(turn);
  }
  effects.push({ type: 'report', outcome: { type: 'lost' } });
}

/** Ends the round in flight; what it set on the nodes stays there. */
export function endRound(turn: Turn): void {
  turn.s.extending = false;
  cancelAnswers(turn, 'extension');
}

/** Tells the owner that the lock keeps the deadline it has. */
export function refuse({ s, effects }: Turn, reason: ExtensionFailure): void {
  const votes = votesOf(s.roundVotes, s.quorum);
  effects.push({ type: 'report', outcome: { type: 'not-extended', reason, votes } });
}

/** Arms the next automatic extension of a held lock, if the policy has them and any is left. */
function planAutoExtension({ policy, s, effects }: Turn, earliest: LocalTime): void {
  const { autoExtendAtPpm, autoExtendAtUs, maxExtensions } = policy.settings;
  if (!extendsItself(policy.settings) || (maxExtensions !== null && s.extensions >= maxExtensions)) return;
  const share = Math.floor((s.ttlMs * (autoExtendAtPpm ?? 0)) / 1000);
  const at = policy.rules.autoExtend(later(s.deadline, -Math.max(autoExtendAtUs ?? 0, share)), earliest);
  if (at !== null) effects.push({ type: 'arm', timer: 'auto-extend', at });
}

/** A lock that is over does not extend itself any more. */
export function stopAutoExtension({ policy, effects }: Turn): void {
  if (extendsItself(policy.settings)) effects.push({ type: 'cancel', timer: 'auto-extend' });
}
