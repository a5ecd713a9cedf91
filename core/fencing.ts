import type { Answer, Command, Operation } from './commands.js';
import type { Effect } from './event.js';

import { allNodes, has, NO_NODES, type NodeSet, size, without } from './nodes.js';
import type { FencingPolicy as Policy } from './settings.js';
import { type DraftState, NO_COUNTERS } from './state.js';
import { answered, counted, timedOut } from './tally.js';
import { type LocalTime, later } from './time.js';

/*
 * How a lock gets its fencing token between its votes and its claim: read the counters of a quorum, raise a quorum to one
 * more. Four things make the result rise from holder to holder: the reading begins when the votes are in, so that it
 * follows what earlier holders did; nobody lowers a counter; the claim waits for a quorum; and a node that lost its
 * counter does not count until it has one as high as a quorum of others knows.
 */

/** How far the token is: still asking, there, or not to be had. */
export type Fencing = 'open' | 'done' | 'failed';

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

/** A node answered to a reading or raising of its counter. */
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
  if (command.attempt !== s.attempt || command.round !== counters.round || has(counters.votes.yes, node)) return 'open';
  const votes = counted(counters.votes, node, answer);
  if (s.phase === 'reading' && command.operation === 'read-counter') {
    const read = answer === 'yes' ? combined(policy, counters.counter, counter) : counters.counter;
    s.counters = { ...counters, votes, counter: read };
  } else if (s.phase === 'raising' && command.operation === 'raise-counter') {
    s.counters = { ...counters, votes, highest: Math.max(counters.highest, counter) };
  } else return 'open';
  return decideFencing(policy, s, now, effects);
}

/** The node time-out of the round. */
export function onCounterTimeout(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): Fencing {
  s.counters = { ...s.counters, votes: timedOut(s.counters.votes, allNodes(s.nodes)) };
  return decideFencing(policy, s, now, effects);
}

function decideFencing(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): Fencing {
  const { votes } = s.counters;
  const yes = size(votes.yes);
  if (yes >= s.quorum) {
    if (s.phase === 'raising') {
      joinMissing(s, effects);
      return 'done';
    }
    raise(policy, s, now, effects);
    return 'open';
  }
  const pending = s.nodes - size(answered(votes));
  if (s.phase === 'reading' && size(votes.no) + pending === s.nodes) {
    if (pending === 0) begin(policy, s, now, effects);
    return 'open';
  }
  return yes + pending < s.quorum ? 'failed' : 'open';
}

function raise(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  const { counter, round, votes } = s.counters;
  s.phase = 'raising';
  s.counters = { ...NO_COUNTERS, round: round + 1, counter: counter + 1, missing: votes.no };
  askAll(policy, s, 'raise-counter', counter + 1, now, effects);
}

/**
 * What a node gets on top of what a quorum knows. It may have acknowledged a raise that is still on its way to the
 * others, and must not know less than that; no more raises than this are ever under way at once.
 */
const HEADROOM: number = 2 ** 20;

/**
 * Nodes that had no counter get one. Each node of the quorum has told its counter after they were found to have none, and
 * whatever had been acknowledged by a quorum is among those: so they know again what they may have known.
 */
function joinMissing(s: DraftState, effects: Effect[]): void {
  const { missing, highest, votes } = s.counters;
  if (missing !== NO_NODES) send(s, without(missing, votes.yes), 'join-counter', highest + HEADROOM, effects);
}

/** No node at all has a counter: nobody has ever counted here, and counting begins. */
function begin(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  send(s, allNodes(s.nodes), 'join-counter', 0, effects);
  s.counters = { ...NO_COUNTERS, round: s.counters.round + 1 };
  askAll(policy, s, 'read-counter', 0, now, effects);
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
