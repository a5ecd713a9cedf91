import type { Answer, Command, Operation } from './commands.js';
import type { Effect } from './event.js';
import { allNodes, has, NO_NODES, type NodeSet, oneNode, size, union, without } from './nodes.js';
import type { FencingPolicy as Policy } from './settings.js';
import { type DraftState, NO_COUNTERS } from './state.js';
import { answered, counted, NO_ANSWERS, timedOut } from './tally.js';
import { type LocalTime, later } from './time.js';

/*
 * How a lock gets its fencing token between its votes and its claim: read the counters of a quorum, raise a quorum to one
 * more. Four things make the result rise from holder to holder: the reading begins when the votes are in, so that it
 * follows what earlier holders did; nobody lowers a counter; the claim waits for a quorum; and a node whose process or
 * memory is not the one that counted does not count until it has a counter as high as a quorum of others knows. Nobody
 * begins to count anew: nodes that never counted cannot be told from nodes that lost everything.
 */

/** How far the token is: still asking, there, not to be had now, or not to be had by any client before an operator acts. */
export type Fencing = 'open' | 'done' | 'failed' | 'lost';

/** The votes are in: begins with what the policy does for a fencing token. */
export function startFencing(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): Fencing {
  switch (policy.fencing) {
    case 'none':
    case 'max':
    case 'sum':
    case 'min':
      return 'done';
    case 'piggybacked-read':
      raise(policy, s, now, effects);
      return 'open';
    default:
      s.phase = 'reading';
      s.counters = NO_COUNTERS;
      askAll(policy, s, 'read-counter', 0, now, effects);
      return 'open';
  }
}

/** A node granted and told its counter, which some policies go by. */
export function noteGrantedCounter(policy: Policy, s: DraftState, counter: number): void {
  if (policy.fencing === 'none') return;
  s.counters = { ...s.counters, counter: combined(policy, s.counters.counter, counter) };
}

/** Counters count from 1 where a node increments them, so that 0 is none yet. */
function combined({ fencing }: Policy, sofar: number, counter: number): number {
  if (fencing === 'sum') return sofar + counter;
  if (fencing === 'min' && sofar !== 0) return Math.min(sofar, counter);
  return Math.max(sofar, counter);
}

/** A node answered to a reading or raising of its counter, before the claim. */
export function onCounter(
  policy: Policy,
  s: DraftState,
  now: LocalTime,
  node: number,
  command: Command,
  answer: Answer,
  counter: number,
  effects: Effect[],
): Fencing {
  const { counters } = s;
  if (command.attempt !== s.attempt) return 'open';
  const isCurrent = command.round === counters.round;
  if (s.phase === 'reading' && isCurrent && command.operation === 'read-counter') {
    if (has(counters.votes.yes, node)) return 'open';
    const read = answer === 'yes' ? combined(policy, counters.counter, counter) : counters.counter;
    s.counters = { ...counters, votes: counted(counters.votes, node, answer), counter: read };
  } else {
    noteMissing(s, node, answer);
    if (s.phase !== 'raising' || !isCurrent || command.operation !== 'raise-counter') return 'open';
    if (has(counters.votes.yes, node)) return 'open';
    noteRaised(s, node, answer, counter);
  }
  return decideFencing(policy, s, now, effects);
}

/** Such an answer after the claim: a node that turns out to have no counter gets one, in a round that nobody waits for. */
export function onLateCounter(
  s: DraftState,
  node: number,
  command: Command,
  answer: Answer,
  counter: number,
  effects: Effect[],
): void {
  if (command.attempt !== s.attempt) return;
  noteMissing(s, node, answer);
  if (s.counters.missing !== NO_NODES && command.round === s.counters.round) {
    noteRaised(s, node, answer, counter);
    if (size(s.counters.votes.yes) >= s.quorum) joinMissing(s, effects);
  }
  rejoinLate(s, effects);
}

/** Has a quorum tell its counters once more, if nodes were found without one too late to join with those that were told. */
export function rejoinLate(s: DraftState, effects: Effect[]): void {
  const { counters } = s;
  const missing = without(counters.late, counters.joined);
  if (missing === NO_NODES || counters.missing !== NO_NODES) return;
  s.counters = { ...counters, votes: NO_ANSWERS, round: counters.round + 1, highest: 0, missing, late: NO_NODES };
  send(s, allNodes(s.nodes), 'raise-counter', counters.counter, effects);
}

function noteMissing(s: DraftState, node: number, answer: Answer): void {
  const { counters } = s;
  if (answer !== 'no' || has(union(counters.missing, counters.joined), node)) return;
  s.counters = { ...counters, late: union(counters.late, oneNode(node)) };
}

function noteRaised(s: DraftState, node: number, answer: Answer, counter: number): void {
  const { counters } = s;
  const votes = counted(counters.votes, node, answer);
  s.counters = { ...counters, votes, highest: Math.max(counters.highest, counter) };
}

/** The node time-out of the round. */
export function onCounterTimeout(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): Fencing {
  s.counters = { ...s.counters, votes: timedOut(s.counters.votes, allNodes(s.nodes)) };
  return decideFencing(policy, s, now, effects);
}

function decideFencing(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): Fencing {
  const { votes, missing } = s.counters;
  const yes = size(votes.yes);
  if (yes >= s.quorum) {
    if (s.phase === 'raising') {
      joinMissing(s, effects);
      return 'done';
    }
    raise(policy, s, now, effects);
    return 'open';
  }
  if (s.phase === 'reading' && leavesNoQuorum(s, votes.no)) {
    // Nodes that lose their counters one after the other look as if all had at once; a second reading tells.
    const still = without(missing, without(missing, votes.no));
    if (leavesNoQuorum(s, missing)) return leavesNoQuorum(s, still) ? 'lost' : 'failed';
    s.counters = { ...NO_COUNTERS, round: s.counters.round + 1, missing: votes.no };
    askAll(policy, s, 'read-counter', 0, now, effects);
    return 'open';
  }
  return yes + s.nodes - size(answered(votes)) < s.quorum ? 'failed' : 'open';
}

/** Whether too few nodes have a counter if these have none. */
function leavesNoQuorum(s: DraftState, missing: NodeSet): boolean {
  return s.nodes - size(missing) < s.quorum;
}

function raise(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  const { counter, round, votes, late } = s.counters;
  s.phase = 'raising';
  s.counters = { ...NO_COUNTERS, round: round + 1, counter: counter + 1, missing: votes.no, late };
  askAll(policy, s, 'raise-counter', counter + 1, now, effects);
}

/**
 * What a node gets on top of what a quorum knows. It may have acknowledged a raise that is still on its way to the
 * others, and must not know less than that; no more raises than this are ever under way at once.
 */
export const COUNTER_HEADROOM: number = 2 ** 20;

/**
 * Nodes that had no counter get one. Each node of the quorum has told its counter after they were found to have none, and
 * whatever had been acknowledged by a quorum is among those: so they know again what they may have known.
 */
function joinMissing(s: DraftState, effects: Effect[]): void {
  const { missing, highest, votes, joined } = s.counters;
  send(s, without(missing, votes.yes), 'join-counter', highest + COUNTER_HEADROOM, effects);
  s.counters = { ...s.counters, missing: NO_NODES, joined: union(joined, missing) };
}

function askAll(
  policy: Policy,
  s: DraftState,
  operation: Operation,
  counter: number,
  now: LocalTime,
  effects: Effect[],
): void {
  send(s, allNodes(s.nodes), operation, counter, effects);
  if (policy.nodeTimeoutUs !== null) {
    effects.push({ type: 'arm', timer: 'attempt', at: later(now, policy.nodeTimeoutUs) });
  }
}

function send(s: DraftState, to: NodeSet, operation: Operation, counter: number, effects: Effect[]): void {
  if (to === NO_NODES || s.token === null) return;
  const { attempt, token, counters } = s;
  effects.push({ type: 'send', to, command: { operation, attempt, round: counters.round, token, ttlMs: 0, counter } });
}

/** Whether an attempt that has its votes waits for its fencing token. */
export function isFencing({ phase }: { readonly phase: DraftState['phase'] }): boolean {
  return phase === 'reading' || phase === 'raising';
}
