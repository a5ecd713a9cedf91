import type { Answer } from './commands.js';
import type { Chance, FailureReason, LockEvent, Reply, Votes } from './event.js';
import { hold } from './extend.js';
import {
  type Fencing,
  isFencing,
  noteGrantedCounter,
  onCounter,
  onCounterTimeout,
  onLateCounter,
  rejoinLate,
  startFencing,
} from './fencing.js';
import { release, unreleased } from './give-back.js';
import { allNodes, has, NO_NODES, type NodeSet, oneNode, size, union, without } from './nodes.js';
import { noteLateGrant, releaseLateGrants } from './release.js';
import { type DraftState, NO_COUNTERS } from './state.js';
import { answered, counted, NO_ANSWERS, timedOut, votesOf } from './tally.js';
import { type LocalTime, later } from './time.js';
import { armAnswers, cancelAnswers, type LockPolicy, type Turn } from './turn.js';
import { deadlineOf } from './validity.js';

/** The owner asks for the lock. */
export function startAcquisition(turn: Turn, { nodes, ttlMs, chance }: LockEvent & { type: 'acquire' }): void {
  const { policy, s, now } = turn;
  if (s.phase !== 'idle') return;
  s.nodes = nodes;
  s.quorum = policy.rules.quorum(nodes, 'acquire');
  s.wanted = votesWanted(policy, nodes);
  s.ttlMs = ttlMs;
  s.calledAt = now;
  startAttempt(turn, 0, chance);
}

/** Votes to wait for on `nodes` nodes: at most `nodes`, at least the quorum, whatever that is. */
export function votesWanted({ rules, settings }: LockPolicy, nodes: number): number {
  const quorum = rules.quorum(nodes, 'acquire');
  if (settings.votesWanted === 'quorum') return quorum;
  return Math.max(quorum, settings.votesWanted === 'all' ? nodes : Math.min(nodes, settings.votesWanted));
}

/** Starts the next attempt when the pause after a failed one is over. */
export function retry(turn: Turn, chance: Chance): void {
  const { s, now } = turn;
  if (s.phase !== 'waiting') return;
  if (s.failure !== null && isLast(turn, now)) {
    fail(turn, s.failure);
    return;
  }
  startAttempt(turn, s.attempt + 1, chance);
}

/** Asks the nodes for their votes, with a token of this attempt. */
function startAttempt(turn: Turn, number: number, chance: Chance): void {
  const { policy, s, now } = turn;
  const token = policy.rules.token(s.token, chance.token);
  if (token !== s.token) releaseLateGrants(turn);
  s.phase = 'acquiring';
  s.attempt = number;
  s.startedAt = now;
  s.token = token;
  s.jitterPpm = chance.jitterPpm;
  s.asked = NO_NODES;
  s.votes = NO_ANSWERS;
  s.counters = NO_COUNTERS;
  s.failure = null;
  s.toRelease = NO_NODES;
  s.releasing = NO_NODES;
  s.releaseVotes = NO_ANSWERS;
  s.lateGrants = NO_NODES;
  askNext(turn);
}

/** Sends the SET to those that are to be asked next: to all at once, unless a rule says otherwise. */
function askNext(turn: Turn): void {
  const { policy, s, effects } = turn;
  const todo = without(allNodes(s.nodes), s.asked);
  if (todo === NO_NODES || s.token === null) return;
  const to = policy.rules.next(todo, without(s.asked, answered(s.votes)), 'yes', 'acquire') ?? NO_NODES;
  if (to === NO_NODES) return;
  s.asked = union(s.asked, to);
  const { attempt, token } = s;
  const ttlMs = s.ttlMs + policy.settings.lockDelayMs;
  effects.push({ type: 'send', to, command: { operation: 'acquire', attempt, round: 0, token, ttlMs, counter: 0 } });
  armAnswers(turn, 'attempt');
}

/** A node answered a SET, of this attempt or of an earlier one. */
export function onVote(turn: Turn, reply: Reply): void {
  const { policy, s } = turn;
  const { rules } = policy;
  const answer = rules.read(reply.answer, 'acquire');
  if (reply.command.attempt !== s.attempt) {
    if (answer === 'yes') releaseForgotten(turn, reply);
    return;
  }
  switch (s.phase) {
    case 'acquiring':
      vote(turn, reply, answer);
      return;
    case 'reading':
    case 'raising':
    case 'held':
    case 'lost':
      // A vote behind a lock that is held still counts: more votes tolerate more forgetful nodes.
      if (s.votedRound < 0) s.votes = counted(s.votes, reply.node, answer);
      return;
    default:
      if (answer === 'yes' && rules.releasesLate()) noteLateGrant(turn, reply.node);
  }
}

/** A node granted to an attempt that is over and was cleaned up: the grant may have come after that. */
function releaseForgotten({ policy, s, effects }: Turn, { command, node }: Reply): void {
  const { rules } = policy;
  if (command.token === s.token || !rules.releasesLate()) return;
  const all = allNodes(s.nodes);
  const refused = { yes: NO_NODES, no: all, failed: NO_NODES };
  if (!has(rules.releaseTo('clean-up', refused, all), node)) return;
  effects.push({ type: 'send', to: oneNode(node), command: { ...command, operation: 'release', ttlMs: 0 } });
}

function vote(turn: Turn, { node, counter }: Reply, answer: Answer): void {
  const { policy, s } = turn;
  if (answer === 'error' && policy.rules.quits('error', s.votes, 'unreachable')) {
    fail(turn, 'unreachable');
    return;
  }
  if (answer === 'yes' && !has(s.votes.yes, node)) noteGrantedCounter(turn, counter);
  s.votes = counted(s.votes, node, answer);
  decide(turn);
}

/** The node time-out: whoever was asked and has not answered has failed. */
export function onAttemptTimeout(turn: Turn): void {
  const { policy, s } = turn;
  const { rules } = policy;
  if (isFencing(s)) follow(turn, onCounterTimeout(turn));
  if (s.phase !== 'acquiring') return;
  s.votes = timedOut(s.votes, s.asked);
  const { yes, no, failed } = s.votes;
  if (failed !== NO_NODES && rules.read('error', 'acquire') === 'yes') {
    s.votes = { yes: union(yes, failed), no, failed: NO_NODES };
  } else if (failed !== NO_NODES && rules.quits('error', s.votes, 'unreachable')) {
    fail(turn, 'unreachable');
    return;
  }
  decide(turn);
}

/** A node answered a reading or raising of its counter. */
export function onCounterAnswer(turn: Turn, reply: Reply): void {
  if (isFencing(turn.s)) follow(turn, onCounter(turn, reply));
  else if (hasClaimed(turn.s)) onLateCounter(turn, reply);
}

function hasClaimed({ phase }: DraftState): boolean {
  return phase === 'held' || phase === 'lost' || phase === 'releasing' || phase === 'released';
}

function follow(turn: Turn, fencing: Fencing): void {
  if (fencing === 'failed') failAttempt(turn, 'unreachable');
  else if (fencing === 'lost') failForGood(turn);
  else if (fencing === 'done') {
    claim(turn);
    if (turn.s.phase === 'held') rejoinLate(turn);
  }
}

/** No attempt of any client can succeed before an operator has given the nodes a counter again. */
function failForGood(turn: Turn): void {
  const { s } = turn;
  cancelAnswers(turn, 'attempt');
  cleanUp(turn, true, NO_NODES);
  fail(turn, 'counters-lost', votesOf(s.counters.votes, s.quorum));
}

/** Whether the votes so far make the lock, or cannot any more. */
function decide(turn: Turn): void {
  const { policy, s } = turn;
  const { nodes, quorum: needed, wanted } = s;
  switch (policy.rules.settle(s.votes, { nodes, needed, wanted })) {
    case 'yes':
      // With fencing they are not the last word.
      if (startFencing(turn) === 'done') claim(turn);
      return;
    case 'no':
      failAttempt(turn, size(s.votes.failed) > nodes - needed ? 'unreachable' : 'contended');
      return;
    default:
      askNext(turn);
  }
}

/** The lock is won, if enough of its validity is left. */
function claim(turn: Turn): void {
  const { policy, s, now, effects } = turn;
  const deadline = deadlineOf(turn, 'acquire');
  if (deadline === null) {
    failAttempt(turn, 'too-slow');
    return;
  }
  cancelAnswers(turn, 'attempt');
  if (policy.rules.quits('claim', s.votes, 'unreachable')) {
    fail(turn, 'unreachable');
    return;
  }
  hold(turn, deadline, now);
  const fence = policy.rules.fencing.token(policy.settings, s.counters.counter, s.token);
  effects.push({ type: 'report', outcome: { type: 'acquired', deadline, votes: votesOf(s.votes, s.quorum), fence } });
}

/** Releases what the attempt may have set, on nodes whose SET is still in flight too, and goes on to the pause. */
function failAttempt(turn: Turn, reason: FailureReason): void {
  const { policy, s, now } = turn;
  const { rules, settings } = policy;
  cancelAnswers(turn, 'attempt');
  if (rules.quits('failure', s.votes, reason)) {
    fail(turn, reason);
    return;
  }
  s.failure = reason;
  const isTimed = cleanUp(turn, isLast(turn, later(now, rules.pause(settings, s.jitterPpm))), NO_NODES);
  if (isCleanedUp(turn)) pause(turn);
  else {
    s.phase = 'cleaning';
    if (!isTimed) armAnswers(turn, 'release');
  }
}

/** Cleans up after a failed attempt, but for the nodes `done`; says whether that is timed already. */
function cleanUp(turn: Turn, last: boolean, done: NodeSet): boolean {
  const { policy, s } = turn;
  const to = policy.rules.releaseTo(last ? 'last clean-up' : 'clean-up', s.votes, allNodes(s.nodes));
  const rest = without(to, done);
  return rest !== NO_NODES && release(turn, rest);
}

function isCleanedUp({ policy, s }: Turn): boolean {
  return policy.rules.freed('clean-up', s.releaseVotes, unreleased(s), s.quorum) !== 'open';
}

/** A node has answered the clean-up that is awaited, or has not in time. */
export function onCleanedUp(turn: Turn): void {
  if (!isCleanedUp(turn)) return;
  cancelAnswers(turn, 'release');
  pause(turn);
}

/** The attempt is over and cleaned up: the next one follows after a pause, or none. */
function pause(turn: Turn): void {
  const { policy, s, now, effects } = turn;
  const at = later(now, policy.rules.pause(policy.settings, s.jitterPpm));
  if (!policy.rules.pausesAfter(isLast(turn, at))) {
    fail(turn, s.failure ?? 'contended');
    return;
  }
  s.phase = 'waiting';
  effects.push({ type: 'arm', timer: 'retry', at });
}

/** Whether no attempt may begin at `at` any more. */
function isLast({ policy, s }: Turn, at: LocalTime): boolean {
  const { tries, acquireTimeoutUs } = policy.settings;
  return (
    (tries !== null && s.attempt + 1 >= tries) ||
    (acquireTimeoutUs !== null && at > later(s.calledAt, acquireTimeoutUs))
  );
}

function fail({ s, effects }: Turn, reason: FailureReason, votes: Votes = votesOf(s.votes, s.quorum)): void {
  s.phase = 'failed';
  s.failure = null;
  effects.push({ type: 'report', outcome: { type: 'failed', reason, attempts: s.attempt + 1, votes } });
}

/** The owner gives up while the lock is being acquired: whatever was set is released, nothing more is tried. */
export function abandon(turn: Turn): void {
  const { policy, s, effects } = turn;
  if (s.phase === 'acquiring' || isFencing(s)) {
    cancelAnswers(turn, 'attempt');
    cleanUp(turn, true, NO_NODES);
  } else if (s.phase === 'cleaning' || s.phase === 'waiting') {
    effects.push({ type: 'cancel', timer: s.phase === 'cleaning' ? 'release' : 'retry' });
    // What the clean-up of this attempt left to a later one.
    cleanUp(turn, true, policy.rules.releaseTo('clean-up', s.votes, allNodes(s.nodes)));
  } else return;
  fail(turn, 'abandoned');
}
