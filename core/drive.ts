import type { Command } from './commands.js';
import type { AttemptRandomness, Effect, LockEvent, Outcome, Timer } from './event.js';
import type { NodeSet } from './nodes.js';
import type { DraftState } from './state.js';
import { advance } from './step.js';
import type { LocalTime } from './time.js';
import type { LockPolicy } from './turn.js';

/** A lock as its environment has it: the state is written to in every step. */
export interface DrivenLock {
  readonly state: DraftState;
}

/**
 * The process that locks live in: production, a simulated client, a replay on real nodes. It knows clocks, timers, nodes and
 * chance, and nothing of what a lock decides.
 */
export interface Environment<Lock extends DrivenLock> {
  readonly policy: LockPolicy;
  /** The randomness of attempt number `attempt` of a lock, from 0. */
  draw(lock: Lock, attempt: number): AttemptRandomness;
  /** Sends a command to nodes. Each answer is handed to {@link drive}. */
  send(lock: Lock, to: NodeSet, command: Command, now: LocalTime): void;
  /** Has {@link dueTimer} driven once at an instant, instead of when the timer was armed for before. */
  arm(lock: Lock, timer: Timer, at: LocalTime, now: LocalTime): void;
  /** Cancels a timer. */
  cancel(lock: Lock, timer: Timer): void;
  /** Tells the owner, who may call back only when {@link drive} has returned. */
  report(lock: Lock, outcome: Outcome, now: LocalTime): void;
}

/** Hands an event to a lock, and has its environment carry out the effects, in their order. */
export function drive<Lock extends DrivenLock>(environment: Environment<Lock>, lock: Lock, event: LockEvent): void {
  const effects = advance(environment.policy, lock.state, event);
  const { now } = event;
  // Not `for … of`: this is the hottest loop of the simulator.
  for (let i = 0; i < effects.length; i++) {
    const effect = effects[i] as Effect;
    switch (effect.type) {
      case 'send':
        environment.send(lock, effect.to, effect.command, now);
        break;
      case 'arm':
        environment.arm(lock, effect.timer, effect.at, now);
        break;
      case 'cancel':
        environment.cancel(lock, effect.timer);
        break;
      case 'report':
        environment.report(lock, effect.outcome, now);
        break;
    }
  }
}

/** The event of a timer that is due, with the chance for the attempt that it may begin. */
export function dueTimer<Lock extends DrivenLock>(
  environment: Environment<Lock>,
  lock: Lock,
  timer: Timer,
  now: LocalTime,
): LockEvent {
  const chance = timer === 'retry' ? environment.draw(lock, lock.state.attempt.number + 1) : null;
  return { type: 'timer', now, timer, chance };
}
