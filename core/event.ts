import type { Answer, Command, Token } from './commands.js';
import type { FencingToken } from './fencing-token.js';
import type { NodeSet } from './nodes.js';
import type { LocalTime } from './time.js';

/**
 * The timers of one lock, each armed at an absolute local deadline: the node time-outs of the attempt, the extension
 * and the release in flight, the pause before the next attempt, the end of the hold, and the next automatic extension.
 */
export type Timer = 'attempt' | 'extension' | 'release' | 'retry' | 'expiry' | 'auto-extend';

/** Chance that a driver supplies for one attempt; the lock itself never draws. */
export interface AttemptRandomness {
  /** Never used before by anybody. */
  readonly token: Token;
  /** Where in its range the pause after this attempt lies, parts per million (0 to 999 999). */
  readonly jitterPpm: number;
}

/**
 * What can happen to a lock. `now` is the driver's reading of the process's clock; a driver never hands in true time.
 * `attempt` and `round` of a reply are those of the command it answers.
 */
export type LockEvent =
  | {
      readonly type: 'acquire';
      readonly now: LocalTime;
      readonly nodes: number;
      readonly ttlMs: number;
      readonly chance: AttemptRandomness;
    }
  | {
      readonly type: 'reply';
      readonly now: LocalTime;
      readonly node: number;
      readonly command: Command;
      readonly answer: Answer;
      /** The counter of the node, for a yes to what reads or changes it; its mark, for a no; else 0. */
      readonly counter: number;
    }
  /** `chance` is read when the timer is `retry`, which starts an attempt. */
  | {
      readonly type: 'timer';
      readonly now: LocalTime;
      readonly timer: Timer;
      readonly chance: AttemptRandomness | null;
    }
  | { readonly type: 'extend'; readonly now: LocalTime; readonly ttlMs: number }
  | { readonly type: 'release'; readonly now: LocalTime };

/**
 * Why an acquisition failed: held by others, too few nodes answered, too slow, too few nodes know their fencing counter, or
 * given up by the caller.
 */
export type FailureReason = 'contended' | 'unreachable' | 'too-slow' | 'counters-lost' | 'abandoned';

/** Why an extension was refused or failed. */
export type ExtensionFailure = 'not-held' | 'in-progress' | 'limit' | 'lost' | 'unreachable' | 'too-late';

/** Votes at the moment of an outcome. Nodes in none of the three sets had not answered yet. */
export interface Votes {
  readonly granted: NodeSet;
  readonly refused: NodeSet;
  /** Errors and time-outs. */
  readonly failed: NodeSet;
  readonly quorum: number;
}

/** What a lock reports to its owner. */
export type Outcome =
  /** The lock is held until `deadline`; `fence` is for the resources that it protects, if the policy has such tokens. */
  | {
      readonly type: 'acquired';
      readonly deadline: LocalTime;
      readonly votes: Votes;
      readonly fence: FencingToken | null;
    }
  /** In `votes` of `counters-lost`, granted means that a node knows its counter, and refused that it does not. */
  | { readonly type: 'failed'; readonly reason: FailureReason; readonly attempts: number; readonly votes: Votes }
  | { readonly type: 'extended'; readonly deadline: LocalTime; readonly votes: Votes }
  /** The lock keeps the deadline it had. */
  | { readonly type: 'not-extended'; readonly reason: ExtensionFailure; readonly votes: Votes }
  /** The deadline has passed by the local clock; no node was asked. */
  | { readonly type: 'lost' }
  /**
   * In `votes`, granted means deleted and refused means that there was nothing of ours. `enough`: whether that is a
   * success by the rule of the policy.
   */
  | { readonly type: 'released'; readonly votes: Votes; readonly enough: boolean };

/** An answer of a node. */
export type Reply = LockEvent & { readonly type: 'reply' };

/** What a driver has to do after a step, in order. */
export type Effect =
  | { readonly type: 'send'; readonly to: NodeSet; readonly command: Command }
  | { readonly type: 'arm'; readonly timer: Timer; readonly at: LocalTime }
  | { readonly type: 'cancel'; readonly timer: Timer }
  | { readonly type: 'report'; readonly outcome: Outcome };
