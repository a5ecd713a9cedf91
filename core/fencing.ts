import type { Answer, Operation } from './commands.js';
import type { Reply } from './event.js';
import { allNodes, has, members, NO_NODES, type NodeSet, oneNode, size, union, without } from './nodes.js';
import { type DraftState, NO_COUNTERS } from './state.js';
import { answered, counted, NO_ANSWERS, timedOut } from './tally.js';
import { armAnswers, send, type Turn } from './turn.js';

/*
 * How a lock gets its fencing token between its votes and its hold: read the counters of a quorum, raise a quorum to one
 * more. Four things make the result rise from holder to holder: the reading begins when the votes are in, so that it
 * follows what earlier holders did; nobody lowers a counter; the lock is held only once a quorum is raised; and a node whose
 * process or memory is not the one that counted does not count until it has a counter as high as a quorum of others knows.
 * No node begins to count again from 0: nodes that never counted cannot be told from nodes that lost everything.
 */

/** How far the token is: still asking, there, not to be had now, or not to be had by any client before an operator acts. */
export type Fencing = 'open' | 'done' | 'failed' | 'lost';

/** The votes are in: begins with what comes before the hold. */
export function startFencing(turn: Turn): Fencing {
  const { policy, s } = turn;
  const first = policy.rules.fencing.first(policy.settings);
  if (first === null) return 'done';
  if (first === 'raise') raise(turn);
  else {
    s.phase = 'reading';
    askAll(turn, 'read-counter', 0);
  }
  return 'open';
}

/** A node granted, and sent its counter with the answer. */
export function noteGrantedCounter({ policy, s }: Turn, granted: number): void {
  const counter = policy.rules.fencing.fromVotes(s.counters.counter, granted);
  if (counter !== s.counters.counter) s.counters = { ...s.counters, counter };
}

/** A node answered to a reading or raising of its counter, while the lock waits for its token. */
export function onCounter(turn: Turn, { node, command, answer, counter }: Reply): Fencing {
  const { s } = turn;
  const { counters } = s;
  if (command.attempt !== s.attempt.number) return 'open';
  const isCurrent = command.round === counters.round;
  if (s.phase === 'reading' && isCurrent && command.operation === 'read-counter') {
    if (has(counters.votes.yes, node)) return 'open';
    const read = answer === 'yes' ? Math.max(counters.counter, counter) : counters.counter;
    const marks = answer === 'no' ? marked(counters.marks, node, counter) : counters.marks;
    s.counters = { ...counters, votes: counted(counters.votes, node, answer), counter: read, marks };
  } else {
    noteMissing(s, node, answer, counter);
    if (s.phase !== 'raising' || !isCurrent || command.operation !== 'raise-counter') return 'open';
    if (has(counters.votes.yes, node)) return 'open';
    noteRaised(s, node, answer, counter);
  }
  return decideFencing(turn);
}

/** Such an answer later: a node that turns out to have no counter gets one, in a round that the owner does not wait for. */
export function onLateCounter(turn: Turn, { node, command, answer, counter }: Reply): void {
  const { s } = turn;
  if (command.attempt !== s.attempt.number) return;
  noteMissing(s, node, answer, counter);
  if (s.counters.missing !== NO_NODES && command.round === s.counters.round) {
    noteRaised(s, node, answer, counter);
    if (size(s.counters.votes.yes) >= s.electorate.needed) joinMissing(turn);
  }
  rejoinLate(turn);
}

/** Asks a quorum for its counters again, for nodes that were found without one too late to join in the last round. */
export function rejoinLate(turn: Turn): void {
  const { s } = turn;
  const { counters } = s;
  const { counter, late, joined } = counters;
  const missing = without(late, joined);
  if (missing === NO_NODES || counters.missing !== NO_NODES) return;
  const round = counters.round + 1;
  s.counters = { ...counters, votes: NO_ANSWERS, round, highest: 0, missing, late: NO_NODES };
  send(turn, allNodes(s.electorate.nodes), 'raise-counter', { round, counter });
}

function noteMissing(s: DraftState, node: number, answer: Answer, mark: number): void {
  const { counters } = s;
  if (answer !== 'no' || has(union(counters.missing, counters.joined), node)) return;
  s.counters = { ...counters, late: union(counters.late, oneNode(node)), marks: marked(counters.marks, node, mark) };
}

function marked(marks: readonly number[], node: number, mark: number): readonly number[] {
  const all = [...marks];
  while (all.length <= node) all.push(0);
  all[node] = mark;
  return all;
}

function noteRaised(s: DraftState, node: number, answer: Answer, counter: number): void {
  const { counters } = s;
  const votes = counted(counters.votes, node, answer);
  // What comes with a no is a mark, and greater than any counter.
  const highest = answer === 'yes' ? Math.max(counters.highest, counter) : counters.highest;
  s.counters = { ...counters, votes, highest };
}

/** The node time-out of the round. */
export function onCounterTimeout(turn: Turn): Fencing {
  const { s } = turn;
  s.counters = { ...s.counters, votes: timedOut(s.counters.votes, allNodes(s.electorate.nodes)) };
  return decideFencing(turn);
}

function decideFencing(turn: Turn): Fencing {
  const { s } = turn;
  const { nodes, needed } = s.electorate;
  const { votes, round, missing, marks } = s.counters;
  const yes = size(votes.yes);
  if (yes >= needed && s.phase === 'raising') {
    joinMissing(turn);
    return 'done';
  }
  if (yes >= needed) {
    raise(turn);
    return 'open';
  }
  if (s.phase === 'reading' && leavesNoQuorum(s, votes.no)) {
    // Nodes that lose their counters one after the other look as if all had at once; a second reading shows it.
    const still = without(missing, without(missing, votes.no));
    if (leavesNoQuorum(s, missing)) return leavesNoQuorum(s, still) ? 'lost' : 'failed';
    s.counters = { ...NO_COUNTERS, round: round + 1, missing: votes.no, marks };
    askAll(turn, 'read-counter', 0);
    return 'open';
  }
  return yes + nodes - size(answered(votes)) < needed ? 'failed' : 'open';
}

/** Whether too few nodes have a counter if these have none. */
function leavesNoQuorum(s: DraftState, missing: NodeSet): boolean {
  return s.electorate.nodes - size(missing) < s.electorate.needed;
}

function raise(turn: Turn): void {
  const { s } = turn;
  const { counter, round, votes, late, marks } = s.counters;
  s.phase = 'raising';
  s.counters = { ...NO_COUNTERS, round: round + 1, counter: counter + 1, missing: votes.no, late, marks };
  askAll(turn, 'raise-counter', counter + 1);
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
function joinMissing(turn: Turn): void {
  const { s } = turn;
  const { round, missing, highest, votes, joined, marks } = s.counters;
  const counter = highest + COUNTER_HEADROOM;
  for (const node of members(without(missing, votes.yes)))
    send(turn, oneNode(node), 'join-counter', { round, counter, mark: marks[node] });
  s.counters = { ...s.counters, missing: NO_NODES, joined: union(joined, missing) };
}

function askAll(turn: Turn, operation: Operation, counter: number): void {
  const { counters, electorate } = turn.s;
  send(turn, allNodes(electorate.nodes), operation, { round: counters.round, counter });
  armAnswers(turn, 'attempt');
}

/** Whether an attempt that has its votes waits for its fencing token. */
export function isFencing({ phase }: { readonly phase: DraftState['phase'] }): boolean {
  return phase === 'reading' || phase === 'raising';
}
