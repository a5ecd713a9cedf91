import type { Answer, Command } from './commands.js';
import type { Chance, Effect, FailureReason } from './event.js';
import { planAutoExtension } from './extend.js';
import { type Fencing, isFencing, noteGrantedCounter, onCounter, onCounterTimeout, startFencing } from './fencing.js';
import { fencingTokenOf } from './fencing-token.js';
import { armRelease, cleanUp, notGivenBack } from './give-back.js';
import { allNodes, has, NO_NODES, type NodeSet, oneNode, size, union, without } from './nodes.js';
import { type Policy, quorumOf, votesWantedOf } from './policy.js';
import { noteLateGrant, releaseLateGrants } from './release.js';
import { settled } from './settle.js';
import { type DraftState, NO_COUNTERS } from './state.js';
import { answered, counted, NO_ANSWERS, timedOut, votesOf } from './tally.js';
import { type LocalTime, later } from './time.js';
import { deadlineOf, isValid, validityOf } from './validity.js';

/** Takes up an acquisition on a fresh state. */
export function startAcquisition(
  policy: Policy,
  s: DraftState,
  now: LocalTime,
  nodes: number,
  ttlMs: number,
  chance: Chance,
  effects: Effect[],
): void {
  s.nodes = nodes;
  s.quorum = quorumOf(policy, nodes);
  s.wanted = votesWantedOf(policy, nodes);
  s.ttlMs = ttlMs;
  s.calledAt = now;
  startAttempt(policy, s, now, chance, effects);
}

/** Starts the next attempt when the pause after a failed one is over. */
export function retry(policy: Policy, s: DraftState, now: LocalTime, chance: Chance, effects: Effect[]): void {
  if (s.phase !== 'waiting') return;
  if (s.failure !== null && isLast(policy, s, now)) {
    fail(s, s.failure, effects);
    return;
  }
  if (policy.tokenScope === 'attempt') releaseLateGrants(s, effects);
  s.attempt++;
  startAttempt(policy, s, now, chance, effects);
}

function startAttempt(policy: Policy, s: DraftState, now: LocalTime, chance: Chance, effects: Effect[]): void {
  s.phase = 'acquiring';
  s.startedAt = now;
  if (s.token === null || policy.tokenScope === 'attempt') s.token = chance.token;
  s.jitterPpm = chance.jitterPpm;
  s.asked = NO_NODES;
  s.votes = NO_ANSWERS;
  s.counters = NO_COUNTERS;
  s.failure = null;
  s.toRelease = NO_NODES;
  s.releasing = NO_NODES;
  s.releaseVotes = NO_ANSWERS;
  s.lateGrants = NO_NODES;
  ask(policy, s, now, policy.sending === 'parallel' ? allNodes(s.nodes) : oneNode(0), effects);
}

function ask(policy: Policy, s: DraftState, now: LocalTime, to: NodeSet, effects: Effect[]): void {
  if (s.token === null) return;
  s.asked = union(s.asked, to);
  effects.push({
    type: 'send',
    to,
    command: {
      operation: 'acquire',
      attempt: s.attempt,
      round: 0,
      token: s.token,
      ttlMs: s.ttlMs + policy.lockDelayMs,
      counter: 0,
    },
  });
  if (policy.nodeTimeoutUs !== null) {
    effects.push({ type: 'arm', timer: 'attempt', at: later(now, policy.nodeTimeoutUs) });
  }
}

/** A node answered a SET, of this attempt or of an earlier one. */
export function onVote(
  policy: Policy,
  s: DraftState,
  now: LocalTime,
  node: number,
  command: Command,
  answer: Answer,
  counter: number,
  effects: Effect[],
): void {
  if (command.attempt !== s.attempt) {
    // The attempt failed and was cleaned up; a late success may have come after that clean-up.
    const cleaned = policy.cleanup === 'all' && policy.cleanupAfter !== 'last-attempt' && policy.releasesLateGrants;
    if (answer === 'yes' && cleaned && command.token !== s.token)
      effects.push({ type: 'send', to: oneNode(node), command: { ...command, operation: 'release', ttlMs: 0 } });
    return;
  }
  switch (s.phase) {
    case 'acquiring':
      if (policy.onNodeError === 'abort' && answer === 'error') {
        fail(s, 'unreachable', effects);
        return;
      }
      if (answer === 'yes' && !has(s.votes.yes, node)) noteGrantedCounter(policy, s, counter);
      s.votes = counted(s.votes, node, answer);
      decide(policy, s, now, effects);
      return;
    case 'reading':
    case 'raising':
    case 'held':
    case 'lost':
      // A vote behind a lock that is held still counts: more votes tolerate more forgetful nodes.
      if (s.votedRound < 0) s.votes = counted(s.votes, node, answer);
      return;
    default:
      if (answer === 'yes' && policy.releasesLateGrants) noteLateGrant(s, node, effects);
  }
}

/** The node time-out: whoever was asked and has not answered has failed. */
export function onAttemptTimeout(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (isFencing(s)) follow(policy, s, now, onCounterTimeout(policy, s, now, effects), effects);
  if (s.phase !== 'acquiring') return;
  s.votes = timedOut(s.votes, s.asked);
  if (policy.onNodeError === 'abort' && s.votes.failed !== NO_NODES) {
    fail(s, 'unreachable', effects);
    return;
  }
  if (policy.onNodeError === 'vote') {
    s.votes = { yes: union(s.votes.yes, s.votes.failed), no: s.votes.no, failed: NO_NODES };
  }
  decide(policy, s, now, effects);
}

/** A node answered a reading or raising of its counter. */
export function onCounterAnswer(
  policy: Policy,
  s: DraftState,
  now: LocalTime,
  node: number,
  command: Command,
  answer: Answer,
  counter: number,
  effects: Effect[],
): void {
  if (isFencing(s)) follow(policy, s, now, onCounter(policy, s, now, node, command, answer, counter, effects), effects);
}

function follow(policy: Policy, s: DraftState, now: LocalTime, fencing: Fencing, effects: Effect[]): void {
  if (fencing === 'failed') failAttempt(policy, s, now, 'unreachable', effects);
  else if (fencing === 'done') claim(policy, s, now, effects);
}

function decide(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  const yes = size(s.votes.yes);
  const pending = s.nodes - size(answered(s.votes));
  switch (settled(policy.settle, yes, s.nodes - yes - pending, pending, s.quorum, s.wanted)) {
    case 'yes':
      elected(policy, s, now, effects);
      return;
    case 'no':
      failAttempt(policy, s, now, size(s.votes.failed) > s.nodes - s.quorum ? 'unreachable' : 'contended', effects);
      return;
    default:
      askNext(policy, s, now, effects);
  }
}

/** In sequential sending, asks the next node once everybody asked so far has answered or timed out. */
function askNext(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (policy.sending === 'parallel' || without(s.asked, answered(s.votes)) !== NO_NODES) return;
  for (let node = 0; node < s.nodes; node++) {
    if (!has(s.asked, node)) {
      ask(policy, s, now, oneNode(node), effects);
      return;
    }
  }
}

/** The votes are in; with fencing they are not the last word. */
function elected(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (startFencing(policy, s, now, effects) === 'done') claim(policy, s, now, effects);
}

function claim(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  const from = policy.validityFrom === 'attempt' ? s.startedAt : policy.validityFrom === 'call' ? s.calledAt : now;
  const ttlUs = s.ttlMs * 1000;
  if (!isValid(policy, validityOf(policy, from, now, ttlUs))) {
    failAttempt(policy, s, now, 'too-slow', effects);
    return;
  }
  if (policy.onNodeError === 'forfeit' && s.votes.failed !== NO_NODES) {
    if (policy.nodeTimeoutUs !== null) effects.push({ type: 'cancel', timer: 'attempt' });
    fail(s, 'unreachable', effects);
    return;
  }
  const deadline = deadlineOf(policy, from, now, ttlUs);
  s.phase = 'held';
  s.deadline = deadline;
  if (policy.nodeTimeoutUs !== null) effects.push({ type: 'cancel', timer: 'attempt' });
  if (policy.lossSignal === 'local-timer') effects.push({ type: 'arm', timer: 'expiry', at: deadline });
  planAutoExtension(policy, s, now, effects);
  const fence = fencingTokenOf(policy, s.counters.counter, s.token);
  effects.push({ type: 'report', outcome: { type: 'acquired', deadline, votes: votesOf(s.votes, s.quorum), fence } });
}

function failAttempt(policy: Policy, s: DraftState, now: LocalTime, reason: FailureReason, effects: Effect[]): void {
  if (policy.nodeTimeoutUs !== null) effects.push({ type: 'cancel', timer: 'attempt' });
  if (givesUp(policy, s, reason)) {
    fail(s, reason, effects);
    return;
  }
  s.failure = reason;
  cleanUp(policy, s, isLast(policy, s, later(now, pauseOf(policy, s))), now, effects);
  if (policy.cleanupAwaited && notGivenBack(s) !== NO_NODES) {
    s.phase = 'cleaning';
    if (policy.releaseSending === 'parallel') armRelease(policy, now, effects);
  } else pause(policy, s, now, effects);
}

function givesUp({ givesUpOn }: Policy, s: DraftState, reason: FailureReason): boolean {
  if (givesUpOn === 'errors') return s.votes.yes === NO_NODES && s.votes.failed !== NO_NODES;
  return givesUpOn === 'too-slow' && reason === 'too-slow';
}

/** Whether no attempt may begin at `at` any more. */
function isLast({ tries, acquireTimeoutUs }: Policy, s: DraftState, at: LocalTime): boolean {
  return (
    (tries !== null && s.attempt + 1 >= tries) ||
    (acquireTimeoutUs !== null && at > later(s.calledAt, acquireTimeoutUs))
  );
}

/** A node has answered the clean-up that is awaited, or has not in time. */
export function onCleanedUp(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  const freed = size(s.releaseVotes.yes) + size(s.releaseVotes.no);
  const decided = policy.settle !== 'all' && policy.releaseSending === 'parallel' && freed >= s.quorum;
  if (notGivenBack(s) !== NO_NODES && !decided) return;
  if (policy.nodeTimeoutUs !== null) effects.push({ type: 'cancel', timer: 'release' });
  pause(policy, s, now, effects);
}

/** The attempt is over and cleaned up: the next one follows after a pause, or none. */
function pause(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  const at = later(now, pauseOf(policy, s));
  if (isLast(policy, s, at) && !policy.pausesAfterLast) {
    fail(s, s.failure ?? 'contended', effects);
    return;
  }
  s.phase = 'waiting';
  effects.push({ type: 'arm', timer: 'retry', at });
}

function pauseOf(policy: Policy, s: DraftState): number {
  if (!policy.retryPauses) return 0;
  const jitter = Math.floor((2 * policy.retryJitterUs * s.jitterPpm) / 1_000_000) - policy.retryJitterUs;
  return Math.max(0, policy.retryDelayUs + jitter);
}

function fail(s: DraftState, reason: FailureReason, effects: Effect[]): void {
  s.phase = 'failed';
  s.failure = null;
  effects.push({
    type: 'report',
    outcome: { type: 'failed', reason, attempts: s.attempt + 1, votes: votesOf(s.votes, s.quorum) },
  });
}

/** The owner gives up while the lock is being acquired: whatever was set is released, nothing more is tried. */
export function abandon(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (s.phase === 'acquiring' || isFencing(s)) {
    if (policy.nodeTimeoutUs !== null) effects.push({ type: 'cancel', timer: 'attempt' });
    cleanUp(policy, s, true, now, effects);
  } else {
    effects.push({ type: 'cancel', timer: s.phase === 'cleaning' ? 'release' : 'retry' });
    if (policy.cleanupAfter === 'last-attempt') cleanUp(policy, s, true, now, effects);
  }
  fail(s, 'abandoned', effects);
}
