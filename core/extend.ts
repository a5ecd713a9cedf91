import type { Answer, Command } from './commands.js';
import type { Effect, ExtensionFailure } from './event.js';
import { giveBack } from './give-back.js';
import { allNodes, size } from './nodes.js';
import { extendsItself, type Policy } from './policy.js';
import { settled } from './settle.js';
import type { DraftState } from './state.js';
import { answered, counted, NO_ANSWERS, timedOut, votesOf } from './tally.js';
import { type LocalTime, later } from './time.js';
import { deadlineOf, isValid, validityOf } from './validity.js';

/** The owner asks for a new TTL, counted from now. */
export function startExtension(policy: Policy, s: DraftState, now: LocalTime, ttlMs: number, effects: Effect[]): void {
  const obstacle = whyNot(policy, s, now);
  if (obstacle !== null) {
    refuse(s, obstacle, effects);
    return;
  }
  sendRound(policy, s, now, ttlMs, effects);
}

/** The automatic extension is due. */
export function autoExtend(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (whyNot(policy, s, now) === null) sendRound(policy, s, now, s.ttlMs, effects);
}

function whyNot(policy: Policy, s: DraftState, now: LocalTime): ExtensionFailure | null {
  const afterExpiry = s.phase === 'lost' || (s.phase === 'held' && now >= s.deadline);
  if (afterExpiry && (policy.extendOnlyInTime || policy.extendStartsInTime)) return 'too-late';
  if (s.phase !== 'held' && s.phase !== 'lost') return 'not-held';
  if (s.extending) return 'in-progress';
  return policy.maxExtensions !== null && s.extensions >= policy.maxExtensions ? 'limit' : null;
}

function sendRound(policy: Policy, s: DraftState, now: LocalTime, ttlMs: number, effects: Effect[]): void {
  if (s.token === null) return;
  s.extending = true;
  s.extensionTtlMs = ttlMs;
  s.extensionStartedAt = now;
  s.roundVotes = NO_ANSWERS;
  const round = s.extensionRounds++;
  effects.push({
    type: 'send',
    to: allNodes(s.nodes),
    command: {
      operation: 'extend',
      attempt: s.attempt,
      round,
      token: s.token,
      ttlMs: ttlMs + policy.lockDelayMs,
      counter: 0,
    },
  });
  if (policy.nodeTimeoutUs !== null) {
    effects.push({ type: 'arm', timer: 'extension', at: later(now, policy.nodeTimeoutUs) });
  }
}

/** A node answered an extension. Each round is counted on its own: a later one never heals an earlier one. */
export function onExtensionVote(
  policy: Policy,
  s: DraftState,
  now: LocalTime,
  node: number,
  command: Command,
  answer: Answer,
  effects: Effect[],
): void {
  if (command.attempt !== s.attempt) return;
  if (s.extending && command.round === s.extensionRounds - 1) {
    s.roundVotes = counted(s.roundVotes, node, answer);
    decide(policy, s, now, effects);
  } else if (command.round === s.votedRound && (s.phase === 'held' || s.phase === 'lost')) {
    s.votes = counted(s.votes, node, answer);
  }
}

/** The node time-out of the round. */
export function onExtensionTimeout(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (!s.extending) return;
  s.roundVotes = timedOut(s.roundVotes, allNodes(s.nodes));
  decide(policy, s, now, effects);
}

function decide(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  const needed = s.quorum + policy.extendQuorumOffset;
  const yes = size(s.roundVotes.yes);
  const pending = s.nodes - size(answered(s.roundVotes));
  const verdict = settled(policy.settle, yes, s.nodes - yes - pending, pending, needed, needed);
  if (verdict === 'yes') succeed(policy, s, now, effects);
  else if (verdict === 'no') {
    endRound(policy, s, effects);
    failRound(policy, s, size(s.roundVotes.no) > s.nodes - needed ? 'lost' : 'unreachable', now, effects);
  }
}

/** A round has come to nothing. */
function failRound(policy: Policy, s: DraftState, reason: ExtensionFailure, now: LocalTime, effects: Effect[]): void {
  refuse(s, reason, effects);
  noticeLoss(policy, s, now, effects);
  if (policy.extendOnFail !== 'keep') {
    giveBack(policy, s, allNodes(s.nodes), now, effects);
    if (policy.extendOnFail === 'give-up') giveUp(policy, s, effects);
  }
  retryAutoExtension(policy, s, now, effects);
}

function giveUp(policy: Policy, s: DraftState, effects: Effect[]): void {
  if (s.phase !== 'held') return;
  s.phase = 'lost';
  if (policy.lossSignal === 'local-timer') effects.push({ type: 'cancel', timer: 'expiry' });
  if (extendsItself(policy)) effects.push({ type: 'cancel', timer: 'auto-extend' });
  effects.push({ type: 'report', outcome: { type: 'lost' } });
}

function succeed(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  const from = policy.extendFrom === 'start' ? s.extensionStartedAt : now;
  const ttlUs = s.extensionTtlMs * 1000;
  const inTime = now < s.deadline || !policy.extendOnlyInTime;
  endRound(policy, s, effects);
  const valid = policy.extensionCheck === 'none' || isValid(policy, validityOf(policy, from, now, ttlUs));
  if (!inTime || !valid) {
    failRound(policy, s, 'too-late', now, effects);
    return;
  }
  const deadline = deadlineOf(policy, from, now, ttlUs);
  s.phase = 'held';
  s.deadline = deadline;
  s.extensions++;
  s.votedRound = s.extensionRounds - 1;
  s.votes = s.roundVotes;
  if (policy.lossSignal === 'local-timer') effects.push({ type: 'arm', timer: 'expiry', at: deadline });
  planAutoExtension(policy, s, later(now, policy.autoExtendSpacingUs), effects);
  effects.push({ type: 'report', outcome: { type: 'extended', deadline, votes: votesOf(s.votes, s.quorum) } });
}

/** A client that looks at its claim only when an extension fails sees now that it is over. */
function noticeLoss(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (policy.lossSignal !== 'after-reply' || s.phase !== 'held' || now < s.deadline) return;
  s.phase = 'lost';
  effects.push({ type: 'report', outcome: { type: 'lost' } });
}

/** Ends the round in flight; what it set on the nodes stays there. */
export function endRound(policy: Policy, s: DraftState, effects: Effect[]): void {
  s.extending = false;
  if (policy.nodeTimeoutUs !== null) effects.push({ type: 'cancel', timer: 'extension' });
}

/** Tells the owner that the lock keeps the deadline it has. */
export function refuse(s: DraftState, reason: ExtensionFailure, effects: Effect[]): void {
  const votes = votesOf(s.roundVotes, s.quorum);
  effects.push({ type: 'report', outcome: { type: 'not-extended', reason, votes } });
}

/** Arms the next automatic extension of a held lock, if the policy has them and any is left. */
export function planAutoExtension(policy: Policy, s: DraftState, earliest: LocalTime, effects: Effect[]): void {
  if (!extendsItself(policy)) return;
  if (policy.maxExtensions !== null && s.extensions >= policy.maxExtensions) return;
  const share = Math.floor((s.ttlMs * (policy.autoExtendAtPpm ?? 0)) / 1000);
  const due = later(s.deadline, -Math.max(policy.autoExtendAtUs ?? 0, share));
  if (due < earliest && policy.autoExtendLate === 'never') return;
  effects.push({ type: 'arm', timer: 'auto-extend', at: due > earliest ? due : earliest });
}

function retryAutoExtension(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (s.phase === 'held') planAutoExtension(policy, s, later(now, policy.autoExtendSpacingUs), effects);
}
