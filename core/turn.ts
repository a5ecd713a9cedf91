import type { Command, Operation } from './commands.js';
import type { Outcome, Timer } from './event.js';
import { NO_NODES, type NodeSet } from './nodes.js';
import { type Rules, SOUND } from './rules.js';
import { DEFAULT_SETTINGS, type Settings } from './settings.js';
import type { DraftState } from './state.js';
import { type LocalTime, later } from './time.js';

/** What a lock is run by: what its user chose, and the rules that it follows. */
export interface LockPolicy {
  readonly settings: Settings;
  readonly rules: Rules;
}

/** The sound lock with its default settings. */
export const SOUND_POLICY: LockPolicy = Object.freeze<LockPolicy>({ settings: DEFAULT_SETTINGS, rules: SOUND });

/** One event at one lock: what it is run by, its state to write to, and the clock; takes in what is to be carried out. */
export interface Turn {
  readonly policy: LockPolicy;
  readonly s: DraftState;
  readonly now: LocalTime;
  /** Each adds an effect. They are carried out after the step, in this order: see `Effect`. */
  send(to: NodeSet, command: Command): void;
  arm(timer: Timer, at: LocalTime): void;
  cancel(timer: Timer): void;
  report(outcome: Outcome): void;
}

/** What a command has besides its operation and its attempt: 0 where it is left out, or no mark. */
interface Values {
  readonly round?: number;
  readonly ttlMs?: number;
  readonly counter?: number;
  readonly mark?: number | undefined;
}

/** Sends a command of this attempt to nodes, if there are any. */
export function send(turn: Turn, to: NodeSet, operation: Operation, values: Values): void {
  const { number: attempt, token } = turn.s.attempt;
  const { round = 0, ttlMs = 0, counter = 0, mark } = values;
  if (to === NO_NODES || token === null) return;
  turn.send(
    to,
    mark === undefined
      ? { operation, attempt, round, token, ttlMs, counter }
      : { operation, attempt, round, token, ttlMs, counter, mark },
  );
}

/** The timers that run until the nodes have answered. */
type AnswerTimer = Extract<Timer, 'attempt' | 'extension' | 'release'>;

/** Begins to wait for the nodes that were just asked. */
export function armAnswers(turn: Turn, timer: AnswerTimer): void {
  const { nodeTimeoutUs } = turn.policy.settings;
  if (nodeTimeoutUs !== null) turn.arm(timer, later(turn.now, nodeTimeoutUs));
}

/** Waits for them no longer. */
export function cancelAnswers(turn: Turn, timer: AnswerTimer): void {
  if (turn.policy.settings.nodeTimeoutUs !== null) turn.cancel(timer);
}
