import type { Token } from './commands.js';
import type { FailureReason } from './event.js';
import { NO_NODES, type NodeSet } from './nodes.js';
import { NO_ANSWERS, type Tally } from './tally.js';
import { type LocalTime, localTime } from './time.js';

/**
 * Where a lock is in its life.
 * `idle` → `acquiring` ⇄ `waiting` → `held` → `releasing` → `released`, or `failed`, or `lost` at the claimed expiry.
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

/** What an attempt knows of the fencing counters. */
export interface Counters {
  /** Answers to the round of reading or raising; no is for a node that has no counter. */
  readonly votes: Tally;
  /** Round in flight, from 0. */
  readonly round: number;
  /** While reading, what the counters read so far come to; then the counter of the fencing token. */
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

/** Nothing yet. Not frozen, because the engine would take a frozen object for another shape. */
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

/**
 * The inside of {@link LockState}, writable for the one step that owns the copy: integers, opaque tokens, short tags and
 * tallies, so that it can be encoded, compared and shown. One value serves one acquisition with its extensions and its release.
 */
export interface DraftState {
  phase: Phase;
  /** Size of the cluster, the votes that make a lock on it, and the votes to wait for. */
  nodes: number;
  quorum: number;
  wanted: number;
  ttlMs: number;
  /** Attempt in progress or last made, from 0. */
  attempt: number;
  token: Token | null;
  /** Jitter for the pause after this attempt, ppm. */
  jitterPpm: number;
  /** T1: the clock before the first command of this attempt, and of the first one. */
  startedAt: LocalTime;
  calledAt: LocalTime;
  /** Nodes that were asked for a vote on this attempt. */
  asked: NodeSet;
  /** The votes on this attempt; after an extension, the votes of its round. */
  votes: Tally;
  /** The fencing counters, if the policy has them. */
  counters: Counters;
  /** The claim ends here; meaningful from `held` on. */
  deadline: LocalTime;
  /** The round of extension in flight. */
  extending: boolean;
  /** Rounds of extension started so far; the newest has index `extensionRounds - 1`. */
  extensionRounds: number;
  /** The round whose votes `votes` are, or -1 while they are the attempt's. */
  votedRound: number;
  extensions: number;
  extensionTtlMs: number;
  extensionStartedAt: LocalTime;
  /** The votes of the round in flight, or of the last one. */
  roundVotes: Tally;
  /** Why this attempt failed, while its clean-up is awaited or the pause after it is made. */
  failure: FailureReason | null;
  /** Nodes that are still to be sent a release, where that is done one after the other. */
  toRelease: NodeSet;
  /** How often a release was tried that did not succeed. */
  releaseTries: number;
  /** Nodes that were sent a release of this token, or the clean-up of this attempt. */
  releasing: NodeSet;
  /** What they answered: yes if they deleted it, no if they had nothing of ours. */
  releaseVotes: Tally;
  /** Nodes that granted after their release was sent and have not answered it yet. */
  lateGrants: NodeSet;
}

/** Everything one lock knows. Plain, finite and encodable; only {@link step} makes new ones. */
export type LockState = Readonly<DraftState>;

const START = localTime(0);

/** A lock nobody has asked for yet. */
export function initialState(): LockState {
  return {
    phase: 'idle',
    nodes: 0,
    quorum: 0,
    wanted: 0,
    ttlMs: 0,
    attempt: 0,
    token: null,
    jitterPpm: 0,
    startedAt: START,
    calledAt: START,
    asked: NO_NODES,
    votes: NO_ANSWERS,
    counters: NO_COUNTERS,
    deadline: START,
    extending: false,
    extensionRounds: 0,
    votedRound: -1,
    extensions: 0,
    extensionTtlMs: 0,
    extensionStartedAt: START,
    roundVotes: NO_ANSWERS,
    failure: null,
    toRelease: NO_NODES,
    releaseTries: 0,
    releasing: NO_NODES,
    releaseVotes: NO_ANSWERS,
    lateGrants: NO_NODES,
  };
}

/** A copy to write to. Field by field, because spreading halves the speed of the whole simulator. */
export function copyState(s: LockState): DraftState {
  return {
    phase: s.phase,
    nodes: s.nodes,
    quorum: s.quorum,
    wanted: s.wanted,
    ttlMs: s.ttlMs,
    attempt: s.attempt,
    token: s.token,
    jitterPpm: s.jitterPpm,
    startedAt: s.startedAt,
    calledAt: s.calledAt,
    asked: s.asked,
    votes: s.votes,
    counters: s.counters,
    deadline: s.deadline,
    extending: s.extending,
    extensionRounds: s.extensionRounds,
    votedRound: s.votedRound,
    extensions: s.extensions,
    extensionTtlMs: s.extensionTtlMs,
    extensionStartedAt: s.extensionStartedAt,
    roundVotes: s.roundVotes,
    failure: s.failure,
    toRelease: s.toRelease,
    releaseTries: s.releaseTries,
    releasing: s.releasing,
    releaseVotes: s.releaseVotes,
    lateGrants: s.lateGrants,
  };
}
