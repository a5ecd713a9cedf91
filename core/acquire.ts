import type { Answer } from './commands.js';
import type { AttemptRandomness, LockEvent, Reply } from './event.js';
import { hold } from './extend.js';
import { failAcquisition, failAttempt, failOnLostCounters, isLast } from './fail.js';
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
import { allNodes, has, NO_NODES, size, union, without } from './nodes.js';
import { noteLateGrant, sendRelease, sendReleaseOf } from './release.js';
import { NO_COUNTERS } from './state.js';
import { answered, count, NO_ANSWERS, setTally, timeOut, votesOf } from './tally.js';
import { armAnswers, cancelAnswers, type LockPolicy, send, type Turn } from './turn.js';
import { deadlineOf } from './validity.js';

/** The owner asks for the lock. */
export function startAcquisition(turn: Turn, { nodes, ttlMs, chance }: LockEvent & { type: 'acquire' }): void {
  const { policy, s, now } = turn;
  if (s.phase !== 'idle') return;
  s.calledAt = now;
  s.ttlMs = ttlMs;
  s.electorate = { nodes, needed: policy.rules.quorum(nodes, 'acquire'), wanted: votesWanted(policy, nodes) };
  startAttempt(turn, 0, chance);
}

/** Votes to wait for on `nodes` nodes: at most `nodes`, at least the quorum, whatever that is. */
export function votesWanted({ rules, settings }: LockPolicy, nodes: number): number {
  const quorum = rules.quorum(nodes, 'acquire');
  if (settings.votesWanted === 'quorum') return quorum;
  return Math.max(quorum, settings.votesWanted === 'all' ? nodes : Math.min(nodes, settings.votesWanted));
}

/** The pause after a failed attempt is over. */
export function retry(turn: Turn, chance: AttemptRandomness): void {
  const { s, now } = turn;
  const { number, failure } = s.attempt;
  if (s.phase !== 'waiting') return;
  if (failure !== null && isLast(turn, now)) failAcquisition(turn, failure);
  else startAttempt(turn, number + 1, chance);
}

/** Asks the nodes for their votes, with a token of this attempt. */
function startAttempt(turn: Turn, number: number, { token: drawn, jitterPpm }: AttemptRandomness): void {
  const { policy, s, now } = turn;
  const token = policy.rules.token(s.attempt.token, drawn);
  // Nobody looks at the answers to the last clean-up any more. One more release that comes late would hit the same token.
  if (token !== s.attempt.token) sendRelease(turn, s.release.lateGrants);
  s.phase = 'acquiring';
  const { attempt, release } = s;
  attempt.number = number;
  attempt.token = token;
  attempt.jitterPpm = jitterPpm;
  attempt.startedAt = now;
  attempt.asked = NO_NODES;
  attempt.failure = null;
  setTally(s.votes, NO_ANSWERS);
  s.counters = NO_COUNTERS;
  release.todo = NO_NODES;
  release.sent = NO_NODES;
  setTally(release.votes, NO_ANSWERS);
  release.lateGrants = NO_NODES;
  release.tries = 0;
  askNext(turn);
}

/** Sends the SET to those that are to be asked next: to all at once, unless a rule says otherwise. */
function askNext(turn: Turn): void {
  const { policy, s } = turn;
  const { asked } = s.attempt;
  const todo = without(allNodes(s.electorate.nodes), asked);
  const to = policy.rules.next(todo, without(asked, answered(s.votes)), 'yes', 'acquire') ?? NO_NODES;
  if (to === NO_NODES) return;
  s.attempt.asked = union(asked, to);
  send(turn, to, 'acquire', { ttlMs: s.ttlMs + policy.settings.lockDelayMs });
  armAnswers(turn, 'attempt');
}

/** A node answered a SET, of this attempt or of an earlier one. */
export function onVote(turn: Turn, reply: Reply): void {
  const { policy, s } = turn;
  const { rules } = policy;
  const answer = rules.read(reply.answer, 'acquire');
  if (reply.command.attempt !== s.attempt.number) {
    if (answer === 'yes') releaseEarlierAttempt(turn, reply);
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
      // A vote behind a lock that is held still counts: more votes tolerate more data loss.
      if (s.hold.votedRound < 0) count(s.votes, reply.node, answer);
      return;
    default:
      if (answer === 'yes' && rules.releasesLate()) noteLateGrant(turn, reply.node);
  }
}

/** A node granted to an attempt that is over and was cleaned up: the grant may have come after that. */
function releaseEarlierAttempt(turn: Turn, { command, node }: Reply): void {
  const { policy, s } = turn;
  const { rules } = policy;
  if (command.token === s.attempt.token || !rules.releasesLate()) return;
  const all = allNodes(s.electorate.nodes);
  const refused = { yes: NO_NODES, no: all, failed: NO_NODES };
  if (has(rules.releaseTo('clean-up', refused, all), node)) sendReleaseOf(turn, command, node, command.round);
}

function vote(turn: Turn, { node, counter }: Reply, answer: Answer): void {
  const { policy, s } = turn;
  if (answer === 'error' && policy.rules.quits('error', s.votes)) {
    failAcquisition(turn, 'unreachable');
    return;
  }
  if (answer === 'yes' && !has(s.votes.yes, node)) noteGrantedCounter(turn, counter);
  count(s.votes, node, answer);
  decideAttempt(turn);
}

/** The node time-out: nodes that were asked and have not answered count as failed. */
export function onAttemptTimeout(turn: Turn): void {
  const { policy, s } = turn;
  const { rules } = policy;
  if (isFencing(s)) followFencing(turn, onCounterTimeout(turn));
  if (s.phase !== 'acquiring') return;
  timeOut(s.votes, s.attempt.asked);
  if (rules.read('error', 'acquire') === 'yes') {
    s.votes.yes = union(s.votes.yes, s.votes.failed);
    s.votes.failed = NO_NODES;
  }
  if (s.votes.failed !== NO_NODES && rules.quits('error', s.votes)) failAcquisition(turn, 'unreachable');
  else decideAttempt(turn);
}

/** Whether the votes so far make the lock, or cannot any more. */
function decideAttempt(turn: Turn): void {
  const { policy, s } = turn;
  const { nodes, needed } = s.electorate;
  switch (policy.rules.settle(s.votes, s.electorate)) {
    case 'yes':
      followFencing(turn, startFencing(turn));
      return;
    case 'no':
      failAttempt(turn, size(s.votes.failed) > nodes - needed ? 'unreachable' : 'contended');
      return;
    default:
      askNext(turn);
  }
}

/** A node answered a reading or raising of its counter. */
export function onCounterAnswer(turn: Turn, reply: Reply): void {
  const { phase } = turn.s;
  if (isFencing(turn.s)) followFencing(turn, onCounter(turn, reply));
  else if (phase === 'held' || phase === 'lost' || phase === 'releasing' || phase === 'released') {
    onLateCounter(turn, reply);
  }
}

/** The lock is won when it has its fencing token, or needs none. */
function followFencing(turn: Turn, fencing: Fencing): void {
  if (fencing === 'failed') failAttempt(turn, 'unreachable');
  else if (fencing === 'lost') failOnLostCounters(turn);
  else if (fencing === 'done') {
    holdIfTimeIsLeft(turn);
    if (turn.s.phase === 'held') rejoinLate(turn);
  }
}

/** The lock is held, if enough of its validity is left. */
function holdIfTimeIsLeft(turn: Turn): void {
  const { policy, s, now } = turn;
  const deadline = deadlineOf(turn, 'acquire');
  if (deadline === null) {
    failAttempt(turn, 'too-slow');
    return;
  }
  cancelAnswers(turn, 'attempt');
  if (policy.rules.quits('win', s.votes)) {
    failAcquisition(turn, 'unreachable');
    return;
  }
  hold(turn, deadline, now);
  const fence = policy.rules.fencing.token(policy.settings, s.counters.counter, s.attempt.token);
  turn.report({ type: 'acquired', deadline, votes: votesOf(s.votes, s.electorate.needed), fence });
}
