import type { Token } from './commands.js';
import type { FailureReason } from './event.js';
import { NO_NODES, type NodeSet } from './nodes.js';
import type { Electorate } from './rules.js';
import { type DraftTally, NO_ANSWERS, newTally, setTally, type Tally } from './tally.js';
import { type LocalTime, localTime } from './time.js';

/**
 * Where a lock is in its life.
 * `idle` → `acquiring` ⇄ `waiting` → `held` → `releasing` → `released`, or `failed`, or `lost` at its deadline.
 * With fencing, `acquiring` → `reading` → `raising` → `held`; with an awaited clean-up, `acquiring` → `cleaning` → `waiting`.
 */
export type Phase =
  | 'idle'
  | 'acquiring'
  | 'reading'
  | 'raising'
  | 'cleaning'
  | 'waiting'
  | 'held'
  | 'lost'
  | 'releasing'
  | 'released'
  | 'failed';

/** The attempt in progress, or the last one. */
interface Attempt {
  /** From 0. */
  number: number;
  token: Token | null;
  /** Jitter for the pause after it, ppm. */
  jitterPpm: number;
  /** T1: the clock before its first command. */
  startedAt: LocalTime;
  /** Nodes that were asked for a vote. */
  asked: NodeSet;
  /** Why it failed, while its clean-up is awaited or the pause after it is made. */
  failure: FailureReason | null;
}

/** What an attempt knows of the fencing counters. */
export interface Counters {
  /** Answers to the round of reading or raising; no is for a node that has no counter. */
  readonly votes: Tally;
  /** Round in flight, from 0. */
  readonly round: number;
  /** While reading, the highest counter read so far; then the counter of the fencing token. */
  readonly counter: number;
  /** The highest counter among the nodes that were raised, theirs included that were higher already. */
  readonly highest: number;
  /**
   * Nodes known to have no counter before this round began. While raising, they can join with `highest` once a quorum was
   * raised; empty again when they were sent that.
   */
  readonly missing: NodeSet;
  /** Nodes found without a counter since, and nodes that were sent one. */
  readonly late: NodeSet;
  readonly joined: NodeSet;
  /** By node: the mark that it answered with when it was found without one. */
  readonly marks: readonly number[];
}

/** The time in which the owner believes to have the lock; meaningful from `held` on. */
interface Hold {
  /** Its end. */
  deadline: LocalTime;
  /** Successful extensions so far. */
  extensions: number;
  /** The round of extension whose votes are behind it, or -1 while they are the attempt's. */
  votedRound: number;
}

/** The round of extension in flight, or the last one. */
interface ExtensionRound {
  /** From 0; -1 before the first. */
  number: number;
  isOpen: boolean;
  ttlMs: number;
  startedAt: LocalTime;
  readonly votes: DraftTally;
}

/** The release of the lock, or the clean-up of the attempt. */
interface ReleaseRound {
  /** Nodes that are still to be sent it, where that is done one after the other. */
  todo: NodeSet;
  /** Nodes that were sent it. */
  sent: NodeSet;
  /** What they answered: yes if they deleted the key, no if they had nothing of ours. */
  readonly votes: DraftTally;
  /** Nodes that granted after it was sent and have not answered it yet. */
  lateGrants: NodeSet;
  /** How often a release was tried that did not succeed. */
  tries: number;
}

/**
 * The inside of {@link LockState}, writable for the one step that owns the copy: integers, opaque tokens, short tags and
 * tallies, so that it can be encoded, compared and shown. One value serves one acquisition with its extensions and its
 * release.
 */
export interface DraftState {
  phase: Phase;
  /** The owner's call: when it was made, and the TTL that it asked for. */
  calledAt: LocalTime;
  ttlMs: number;
  electorate: Electorate;
  attempt: Attempt;
  /** The votes on the attempt; once the lock is extended, those of the last round that succeeded. */
  readonly votes: DraftTally;
  /** The fencing counters, if the lock has them. */
  counters: Counters;
  hold: Hold;
  extension: ExtensionRound;
  release: ReleaseRound;
}

/** Everything one lock knows. Plain, finite and encodable; only {@link step} makes new ones. */
export type LockState = { readonly [Group in keyof DraftState]: Frozen<DraftState[Group]> };

type Frozen<T> = T extends number | string ? T : Readonly<T>;

const START = localTime(0);

/*
 * What there is before anything has happened. Not frozen, because the engine would take a frozen object for another shape.
 */

/** Nothing is known of the counters. */
export const NO_COUNTERS: Counters = {
  votes: NO_ANSWERS,
  round: 0,
  counter: 0,
  highest: 0,
  missing: NO_NODES,
  late: NO_NODES,
  joined: NO_NODES,
  marks: [],
};

const NOBODY: Electorate = { nodes: 0, needed: 0, wanted: 0 };

/** A lock before its acquisition. */
export function initialState(): LockState {
  return {
    phase: 'idle',
    calledAt: START,
    ttlMs: 0,
    electorate: NOBODY,
    attempt: { number: 0, token: null, jitterPpm: 0, startedAt: START, asked: NO_NODES, failure: null },
    votes: newTally(),
    counters: NO_COUNTERS,
    hold: { deadline: START, extensions: 0, votedRound: -1 },
    extension: { number: -1, isOpen: false, ttlMs: 0, startedAt: START, votes: newTally() },
    release: { todo: NO_NODES, sent: NO_NODES, votes: newTally(), lateGrants: NO_NODES, tries: 0 },
  };
}

const INITIAL = initialState();

/** Makes a state that only its driver has what it is before an acquisition. */
export function resetState(s: DraftState): void {
  setState(s, INITIAL);
}

/** A copy that shares nothing with a state that is written to. */
export function copyState(state: LockState): DraftState {
  const copy: DraftState = initialState();
  setState(copy, state);
  return copy;
}

/** Makes one state what another one is. Field by field: spreads make a step ten times slower. */
function setState(s: DraftState, from: LockState): void {
  const { attempt, hold, extension, release } = s;
  s.phase = from.phase;
  s.calledAt = from.calledAt;
  s.ttlMs = from.ttlMs;
  s.electorate = from.electorate;
  attempt.number = from.attempt.number;
  attempt.token = from.attempt.token;
  attempt.jitterPpm = from.attempt.jitterPpm;
  attempt.startedAt = from.attempt.startedAt;
  attempt.asked = from.attempt.asked;
  attempt.failure = from.attempt.failure;
  setTally(s.votes, from.votes);
  s.counters = from.counters;
  hold.deadline = from.hold.deadline;
  hold.extensions = from.hold.extensions;
  hold.votedRound = from.hold.votedRound;
  extension.number = from.extension.number;
  extension.isOpen = from.extension.isOpen;
  extension.ttlMs = from.extension.ttlMs;
  extension.startedAt = from.extension.startedAt;
  setTally(extension.votes, from.extension.votes);
  release.todo = from.release.todo;
  release.sent = from.release.sent;
  setTally(release.votes, from.release.votes);
  release.lateGrants = from.release.lateGrants;
  release.tries = from.release.tries;
}
