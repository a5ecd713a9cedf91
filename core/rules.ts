import type { Answer, Token } from './commands.js';
import type { FailureReason } from './event.js';
import type { FencingToken } from './fencing-token.js';
import { NO_NODES, type NodeSet, size, union } from './nodes.js';
import { HEALING_SCRIPTS, type NodeScripts, SOUND_SCRIPTS } from './scripts.js';
import { type Drift, exactAllowance, type Settings } from './settings.js';
import { answered, type Tally } from './tally.js';
import { type LocalTime, later } from './time.js';

/*
 * The decisions of the lock, each a pure function of what it is made from, and each in its one sound form: `SOUND`. This
 * is where clients differ; what others decide is not here.
 */

/** What votes are for: to get the lock, or to keep it for longer. */
export type Round = 'acquire' | 'extend';

/** Who votes, and how many votes it takes. */
export interface Electorate {
  readonly nodes: number;
  /** Votes that make a lock: the quorum. */
  readonly needed: number;
  /** Votes to wait for, while nodes can still answer. */
  readonly wanted: number;
}

/** What a validity is computed from, of the votes that are in. */
export interface Won {
  readonly round: Round;
  /** When the lock was asked for. */
  readonly calledAt: LocalTime;
  /** T1: the clock before the first command of this attempt or round. */
  readonly startedAt: LocalTime;
  /** T2: the clock as the votes are in. */
  readonly now: LocalTime;
  readonly ttlUs: number;
  /** D: what is given up for clock drift. */
  readonly allowanceUs: number;
}

/** Why keys are deleted: the owner releases the lock, or an attempt failed, after which another follows or none. */
export type ReleaseCause = 'release' | 'clean-up' | 'last clean-up';

/** What follows a failed extension: `lost` is reported, the keys are deleted, or `lost` is reported before the deadline. */
export type AfterFailure = 'notice' | 'release' | 'give-up';

/** How a lock gets its fencing token. */
export interface FencingRules {
  /** What follows the votes: a reading of counters, or raising them at once; `null` for neither. */
  first(settings: Settings): 'read' | 'raise' | null;
  /** Combines the counters that came with the votes so far, 0 for none, with one more. */
  fromVotes(sofar: number, counter: number): number;
  /** The fencing token of a counter and the attempt's own token. */
  token(settings: Settings, counter: number, attempt: Token | null): FencingToken | null;
}

/** The seams at which clients differ. */
export interface Rules {
  /** Votes that make a lock, or an extension of it, on so many nodes. */
  quorum(nodes: number, round: Round): number;
  /** How an answer counts; a time-out is an error. */
  read(answer: Answer, round: Round): Answer;
  /** Whether a round is decided by the votes so far. */
  settle(votes: Tally, of: Electorate): 'yes' | 'no' | 'open';
  /** Whom to send to now: of the nodes still `todo`, while `open` ones have not answered; `null` drops the rest. */
  next(todo: NodeSet, open: NodeSet, last: Answer, operation: 'acquire' | 'release'): NodeSet | null;
  /** Whether an error, a win or the failure of an attempt ends the acquisition at once, with nothing released. */
  quits(because: 'error' | 'win' | FailureReason, votes: Tally): boolean;
  /** The token of an attempt: of the one before (`null` for the first) and a new one. */
  token(sofar: Token | null, drawn: Token): Token;
  /** The clock-drift allowance D for a TTL, µs. */
  allowance(ttlUs: number, settings: Drift): number;
  /** From when a validity counts. */
  from(won: Won): LocalTime;
  /** What is left of it: TTL − (T2 − T1) − D, µs. */
  left(won: Won, from: LocalTime): number;
  /** Whether that is enough to take the lock, or to go on with it. */
  enough(leftUs: number, settings: Settings, round: Round): boolean;
  /** When the lock ends. */
  deadline(won: Won, from: LocalTime, leftUs: number): LocalTime;
  /** When a timer reports that to the owner; `null` never. */
  alarm(deadline: LocalTime): LocalTime | null;
  /** The pause after an attempt, µs, for a draw from 0 to 999 999. */
  pause(settings: Settings, jitterPpm: number): number;
  /** Whether an attempt is followed by a pause, if it is the last one or not. */
  pausesAfter(last: boolean): boolean;
  /** Nodes that a release or a clean-up goes to. */
  releaseTo(cause: ReleaseCause, votes: Tally, nodes: NodeSet): NodeSet;
  /** Whether the answers to it suffice, while `open` nodes have not answered. */
  freed(cause: 'release' | 'clean-up', votes: Tally, open: NodeSet, needed: number): 'enough' | 'short' | 'open';
  /** Whether what is granted after its release was sent is released once more. */
  releasesLate(): boolean;
  /** Whether an extension may begin, or end in success, by whether it is past the deadline. */
  mayExtend(late: boolean, at: 'begin' | 'end'): boolean;
  /** What a failed extension does to the lock, by whether it is past the deadline. */
  afterFailure(late: boolean): readonly AfterFailure[];
  /** When a lock extends itself that should at `due`, and cannot before `earliest`; `null` never. */
  autoExtend(due: LocalTime, earliest: LocalTime): LocalTime | null;
  /** How long a key lives that is set or extended for this long on an attempt, ms. */
  keyLife(ttlMs: number, attempt: number): number;
  /** What is done to keys and counters. */
  readonly scripts: NodeScripts;
  readonly fencing: FencingRules;
}

const NOTHING: readonly AfterFailure[] = [];

/** The sound lock. */
export const SOUND: Rules = {
  // More than half, so that two quorums share a node.
  quorum: (nodes) => Math.floor(nodes / 2) + 1,
  read: (answer) => answer,
  settle(votes, { nodes, needed, wanted }) {
    const yes = size(votes.yes);
    if (yes >= wanted) return 'yes';
    const pending = nodes - size(answered(votes));
    if (yes + pending < needed) return 'no';
    return pending > 0 ? 'open' : 'yes';
  },
  next: (todo) => todo,
  quits: () => false,
  // One each: a late release of one attempt must not delete the key of the next.
  token: (_sofar, drawn) => drawn,
  allowance: (ttlUs, settings) => Math.ceil(exactAllowance(ttlUs, settings) / 1000) * 1000,
  from: (won) => won.startedAt,
  left: (won, from) => won.ttlUs - won.allowanceUs - (won.now - from),
  enough: (leftUs, { minValidityUs }) => leftUs > 0 && leftUs >= minValidityUs,
  // It does not depend on how long the votes took; what they took only decides whether anything is left.
  deadline: (won, from) => later(from, won.ttlUs - won.allowanceUs),
  alarm: (deadline) => deadline,
  pause({ retryDelayUs, retryJitterUs }, jitterPpm) {
    const jitter = Math.floor((2 * retryJitterUs * jitterPpm) / 1_000_000) - retryJitterUs;
    return Math.max(0, retryDelayUs + jitter);
  },
  pausesAfter: (last) => !last,
  // All of them: a node whose answer was lost may have the key.
  releaseTo: (_cause, _votes, nodes) => nodes,
  freed(cause, votes, open, needed) {
    return cause === 'clean-up' || open === NO_NODES || size(union(votes.yes, votes.no)) >= needed ? 'enough' : 'open';
  },
  releasesLate: () => true,
  // Another holder may lie between the deadline and a late extension.
  mayExtend: (late) => !late,
  afterFailure: () => NOTHING,
  autoExtend: (due, earliest) => (due > earliest ? due : earliest),
  keyLife: (ttlMs) => ttlMs,
  scripts: SOUND_SCRIPTS,
  fencing: {
    first: ({ fencing }) => (fencing ? 'read' : null),
    // Counters are read once the votes are in, so that the reading follows what earlier holders did.
    fromVotes: () => 0,
    token: ({ fencing }, counter, attempt) => (fencing ? { counter, attempt } : null),
  },
};

/**
 * The sound lock whose extensions heal: a vote of a node that had lost its key, or never had it, counts as one of a node that
 * lengthened it. Both have the key from before the deadline to the new one, which is all that an extension relies on.
 */
export const HEALING: Rules = { ...SOUND, scripts: HEALING_SCRIPTS };

/**
 * How many of the voting nodes may forget a lock held with `votes` of `nodes` before another client can gather
 * `quorum`: votes + quorum − nodes of them suffice to break it, so one fewer is tolerated.
 */
export function toleratedDataLoss(votes: number, quorum: number, nodes: number): number {
  return Math.max(0, votes + quorum - nodes - 1);
}
