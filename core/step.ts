import { abandon, onAttemptTimeout, onCleanedUp, onCounterAnswer, onVote, retry, startAcquisition } from './acquire.js';
import type { Answer } from './commands.js';
import type { Effect, LockEvent } from './event.js';
import { autoExtend, endRound, onExtensionTimeout, onExtensionVote, refuse, startExtension } from './extend.js';
import { isFencing } from './fencing.js';
import { extendsItself, type Policy } from './policy.js';
import { onReleaseTimeout, onReleaseVote, startRelease } from './release.js';
import { copyState, type DraftState, type LockState } from './state.js';
import type { LocalTime } from './time.js';

/** The result of one step. The state that went in is unchanged. */
export interface Step {
  readonly state: LockState;
  /** To be carried out in this order. */
  readonly effects: readonly Effect[];
}

/**
 * The whole lock: what one event does to it under a policy. Pure, so that the production client, the simulator and the
 * explorer run the same function. Events that make no sense in a phase change nothing.
 *
 * @example
 * ```ts
 * const chance = { token: 'a1' as Token, jitterPpm: 500_000 };
 * const event = { type: 'acquire', now: localTime(0), nodes: 5, ttlMs: 10_000, chance } as const;
 * const { state, effects } = step(REFERENCE, initialState(), event);
 * // state.phase === 'acquiring'; effects send SET to five nodes and arm the node time-out
 * ```
 */
export function step(policy: Policy, state: LockState, event: LockEvent): Step {
  const s = copyState(state);
  const effects = advance(policy, s, event);
  return { state: s, effects };
}

/**
 * The same for a driver that has the only reference to a state and no use for the one before: it is written to, and what
 * is to be carried out is returned. Saves the simulator the copy, a twentieth of its time.
 */
export function advance(policy: Policy, s: DraftState, event: LockEvent): readonly Effect[] {
  const effects: Effect[] = [];
  switch (event.type) {
    case 'acquire':
      if (s.phase === 'idle') startAcquisition(policy, s, event.now, event.nodes, event.ttlMs, event.chance, effects);
      break;
    case 'reply':
      onReply(policy, s, event, effects);
      break;
    case 'timer':
      onTimer(policy, s, event, effects);
      break;
    case 'extend':
      startExtension(policy, s, event.now, event.ttlMs, effects);
      break;
    case 'release':
      if (s.phase === 'held' || s.phase === 'lost') startRelease(policy, s, event.now, effects);
      else if (isTrying(s)) abandon(policy, s, event.now, effects);
      break;
  }
  return effects;
}

function onReply(policy: Policy, s: DraftState, event: LockEvent & { type: 'reply' }, effects: Effect[]): void {
  if (s.phase === 'idle') return;
  switch (event.command.operation) {
    case 'acquire':
      onVote(policy, s, event.now, event.node, event.command, readAs(policy, event.answer), event.counter, effects);
      break;
    case 'extend':
      onExtensionVote(policy, s, event.now, event.node, event.command, extensionReadAs(policy, event.answer), effects);
      break;
    case 'release':
      onReleaseVote(policy, s, event.now, event.node, event.command, event.answer, effects);
      if (s.phase === 'cleaning') onCleanedUp(policy, s, event.now, effects);
      break;
    case 'read-counter':
    case 'raise-counter':
      onCounterAnswer(policy, s, event.now, event.node, event.command, event.answer, event.counter, effects);
      break;
    case 'join-counter':
      break;
  }
}

/** What a client takes the answer to its SET for. */
function readAs({ grantReadAs, onNodeError }: Policy, answer: Answer): Answer {
  if (answer === 'yes') return grantReadAs;
  return answer === 'error' && onNodeError === 'vote' ? 'yes' : answer;
}

/** What a client takes the answer to its extension for. */
function extensionReadAs({ extendReadAs }: Policy, answer: Answer): Answer {
  return extendReadAs === 'yes' && answer === 'no' ? 'yes' : answer;
}

function onTimer(policy: Policy, s: DraftState, event: LockEvent & { type: 'timer' }, effects: Effect[]): void {
  switch (event.timer) {
    case 'attempt':
      onAttemptTimeout(policy, s, event.now, effects);
      break;
    case 'retry':
      if (event.chance !== null) retry(policy, s, event.now, event.chance, effects);
      break;
    case 'expiry':
      onExpiry(policy, s, event.now, effects);
      break;
    case 'extension':
      onExtensionTimeout(policy, s, event.now, effects);
      break;
    case 'auto-extend':
      autoExtend(policy, s, event.now, effects);
      break;
    case 'release':
      onReleaseTimeout(policy, s, event.now, effects);
      if (s.phase === 'cleaning') onCleanedUp(policy, s, event.now, effects);
      break;
  }
}

/** Whether an acquisition is under way. */
function isTrying(s: DraftState): boolean {
  return s.phase === 'acquiring' || s.phase === 'cleaning' || s.phase === 'waiting' || isFencing(s);
}

/** The claim is over by the local clock, whatever the network does. */
function onExpiry(policy: Policy, s: DraftState, now: LocalTime, effects: Effect[]): void {
  if (s.phase !== 'held') return;
  if (now < s.deadline) {
    effects.push({ type: 'arm', timer: 'expiry', at: s.deadline });
    return;
  }
  s.phase = 'lost';
  if (extendsItself(policy)) effects.push({ type: 'cancel', timer: 'auto-extend' });
  if (s.extending && policy.extendOnlyInTime) {
    endRound(policy, s, effects);
    refuse(s, 'too-late', effects);
  }
  effects.push({ type: 'report', outcome: { type: 'lost' } });
}
