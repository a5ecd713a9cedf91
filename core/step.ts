import { onAttemptTimeout, onCounterAnswer, onVote, retry, startAcquisition } from './acquire.js';
import type { Command } from './commands.js';
import type { Effect, LockEvent, Outcome, Reply, Timer } from './event.js';
import { autoExtend, endHold, onExpiry, onExtensionTimeout, onExtensionVote, startExtension } from './extend.js';
import { abandon, onCleanedUp } from './fail.js';
import type { NodeSet } from './nodes.js';
import { onReleaseTimeout, onReleaseVote, startRelease } from './release.js';
import { copyState, type DraftState, type LockState } from './state.js';
import type { LocalTime } from './time.js';
import type { LockPolicy, Turn } from './turn.js';

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
 * const { state, effects } = step(SOUND_POLICY, initialState(), event);
 * // state.phase === 'acquiring'; effects send SET to five nodes and arm the node time-out
 * ```
 */
export function step(policy: LockPolicy, state: LockState, event: LockEvent): Step {
  const turn = new ListedTurn(policy, copyState(state), event.now);
  advance(turn, event);
  return { state: turn.s, effects: turn.effects };
}

/** A turn that lists its effects. */
class ListedTurn implements Turn {
  readonly policy: LockPolicy;
  readonly s: DraftState;
  readonly now: LocalTime;
  readonly effects: Effect[] = [];

  constructor(policy: LockPolicy, s: DraftState, now: LocalTime) {
    this.policy = policy;
    this.s = s;
    this.now = now;
  }

  send(to: NodeSet, command: Command): void {
    this.effects.push({ type: 'send', to, command });
  }

  arm(timer: Timer, at: LocalTime): void {
    this.effects.push({ type: 'arm', timer, at });
  }

  cancel(timer: Timer): void {
    this.effects.push({ type: 'cancel', timer });
  }

  report(outcome: Outcome): void {
    this.effects.push({ type: 'report', outcome });
  }
}

/**
 * The same for a driver that has the only reference to a state and no use for the one before: it is written to, and what
 * is to be carried out goes to the turn. Saves the simulator the copy and the effects, a fifth of what it
 * allocates.
 */
export function advance(turn: Turn, event: LockEvent): void {
  const { s } = turn;
  switch (event.type) {
    case 'acquire':
      startAcquisition(turn, event);
      break;
    case 'reply':
      onReply(turn, event);
      break;
    case 'timer':
      onTimer(turn, event);
      break;
    case 'extend':
      startExtension(turn, event.ttlMs);
      break;
    case 'release':
      if (s.phase === 'held' || s.phase === 'lost') {
        endHold(turn);
        startRelease(turn);
      } else abandon(turn);
      break;
  }
}

function onReply(turn: Turn, reply: Reply): void {
  const { s } = turn;
  if (s.phase === 'idle') return;
  switch (reply.command.operation) {
    case 'acquire':
      onVote(turn, reply);
      break;
    case 'extend':
      onExtensionVote(turn, reply);
      break;
    case 'release':
      onReleaseVote(turn, reply);
      if (s.phase === 'cleaning') onCleanedUp(turn);
      break;
    case 'read-counter':
    case 'raise-counter':
      onCounterAnswer(turn, reply);
      break;
    case 'join-counter':
      break;
  }
}

function onTimer(turn: Turn, event: LockEvent & { type: 'timer' }): void {
  switch (event.timer) {
    case 'attempt':
      onAttemptTimeout(turn);
      break;
    case 'retry':
      if (event.chance !== null) retry(turn, event.chance);
      break;
    case 'expiry':
      onExpiry(turn);
      break;
    case 'extension':
      onExtensionTimeout(turn);
      break;
    case 'auto-extend':
      autoExtend(turn);
      break;
    case 'release':
      onReleaseTimeout(turn);
      if (turn.s.phase === 'cleaning') onCleanedUp(turn);
      break;
  }
}
