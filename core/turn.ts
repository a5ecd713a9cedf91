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

/** Takes in what is to be carried out after a step, in this order: see `Effect`. */
export interface Sink {
  send(to: NodeSet, command: Command): void;
  arm(timer: Timer, at: LocalTime): void;
  cancel(timer: Timer): void;
  report(outcome: Outcome): void;
}

/** One event at one lock: what it is run by, its state to write to, the clock, and who takes in what is to be carried out. */
export interface Turn {
  readonly policy: LockPolicy;
  readonly s: DraftState;
  readonly now: LocalTime;
  readonly sink: Sink;
}

/** What a command has besides its operation and its attempt: 0 where it is left out, or no mark. */
interface Values {
  readonly round?: number;
  readonly ttlMs?: number;
  readonly counter?: number;
  readonly mark?: number | undefined;
}

/** Sends a command of this attempt to nodes, if there are any. */
export function send({ s, sink }: Turn, to: NodeSet, operation: Operation, values: Values): void {
  const { number: attempt, token } = s.attempt;
  const { round = 0, ttlMs = 0, counter = 0, mark } = values;
  if (to === NO_NODES || token === null) return;
  sink.send(
    to,
    mark === undefined
      ? { operation, attempt, round, token, ttlMs, counter }
      : { operation, attempt, round, token, ttlMs, counter, mark },
  );
}

/** Has a timer go off at an instant. */
export function arm({ sink }: Turn, timer: Timer, at: LocalTime): void {
  sink.arm(timer, at);
}

/** Has a timer not go off any more. */
export function cancel({ sink }: Turn, timer: Timer): void {
  sink.cancel(timer);
}

/** Tells the owner. */
export function report({ sink }: Turn, outcome: Outcome): void {
  sink.report(outcome);
}

/** The timers that run until the nodes have answered. */
type AnswerTimer = Extract<Timer, 'attempt' | 'extension' | 'release'>;

/** Begins to wait for the nodes that were just asked. */
export function armAnswers(turn: Turn, timer: AnswerTimer): void {
  const { nodeTimeoutUs } = turn.policy.settings;
  if (nodeTimeoutUs !== null) arm(turn, timer, later(turn.now, nodeTimeoutUs));
}

/** Waits for them no longer. */
export function cancelAnswers(turn: Turn, timer: AnswerTimer): void {
  if (turn.policy.settings.nodeTimeoutUs !== null) cancel(turn, timer);
}
