import type { Effect, Timer } from './event.js';
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
export const SOUND_POLICY: LockPolicy = Object.freeze<LockPolicy>({
  settings: DEFAULT_SETTINGS,
  rules: SOUND,
});

/** One event at one lock: what it is run by, its state to write to, the clock, and what is to be carried out. */
export interface Turn {
  readonly policy: LockPolicy;
  readonly s: DraftState;
  readonly now: LocalTime;
  readonly effects: Effect[];
}

/** The timers that run until the nodes have answered. */
type AnswerTimer = Extract<Timer, 'attempt' | 'extension' | 'release'>;

/** Begins to wait for the nodes that were just asked. */
export function armAnswers({ policy, now, effects }: Turn, timer: AnswerTimer): void {
  const { nodeTimeoutUs } = policy.settings;
  if (nodeTimeoutUs !== null) effects.push({ type: 'arm', timer, at: later(now, nodeTimeoutUs) });
}

/** Waits for them no longer. */
export function cancelAnswers({ policy, effects }: Turn, timer: AnswerTimer): void {
  if (policy.settings.nodeTimeoutUs !== null) effects.push({ type: 'cancel', timer });
}
