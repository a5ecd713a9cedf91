import type { Command } from './commands.js';
import type { AttemptRandomness, Effect, LockEvent, Outcome, Timer } from './event.js';
import { NO_NODES, type NodeSet } from './nodes.js';
import { type DraftState, initialState } from './state.js';
import { advance } from './step.js';
import { type LocalTime, localTime } from './time.js';
import { type LockPolicy, SOUND_POLICY, type Turn } from './turn.js';

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
  /** Has a timer driven once at an instant, with {@link chanceFor}, instead of when it was armed for before. */
  arm(lock: Lock, timer: Timer, at: LocalTime, now: LocalTime): void;
  /** Cancels a timer. */
  cancel(lock: Lock, timer: Timer): void;
  /** Tells the owner, who may call back only when {@link drive} has returned. */
  report(lock: Lock, outcome: Outcome, now: LocalTime): void;
}

/** A place for one effect of any type: what its type does not have is left over from before. */
class Place {
  type: Effect['type'] = 'cancel';
  to: NodeSet = NO_NODES;
  command: Command | null = null;
  timer: Timer = 'attempt';
  at: LocalTime = localTime(0);
  outcome: Outcome | null = null;
}

/** A turn that keeps what is to be carried out until the step is over, in places that further turns use again. */
class DrivenTurn implements Turn {
  policy: LockPolicy = SOUND_POLICY;
  s: DraftState = initialState();
  now: LocalTime = localTime(0);
  private readonly places: Place[] = [];
  private used = 0;

  begin(policy: LockPolicy, s: DraftState, now: LocalTime): void {
    this.policy = policy;
    this.s = s;
    this.now = now;
    this.used = 0;
  }

  private place(type: Effect['type']): Place {
    if (this.used === this.places.length) this.places.push(new Place());
    const place = this.places[this.used++] as Place;
    place.type = type;
    return place;
  }

  send(to: NodeSet, command: Command): void {
    const place = this.place('send');
    place.to = to;
    place.command = command;
  }

  arm(timer: Timer, at: LocalTime): void {
    const place = this.place('arm');
    place.timer = timer;
    place.at = at;
  }

  cancel(timer: Timer): void {
    this.place('cancel').timer = timer;
  }

  report(outcome: Outcome): void {
    this.place('report').outcome = outcome;
  }

  carryOut<Lock extends DrivenLock>(environment: Environment<Lock>, lock: Lock): void {
    const { places, used, now } = this;
    for (let i = 0; i < used; i++) {
      const place = places[i] as Place;
      const { type } = place;
      if (type === 'send') environment.send(lock, place.to, place.command as Command, now);
      else if (type === 'arm') environment.arm(lock, place.timer, place.at, now);
      else if (type === 'cancel') environment.cancel(lock, place.timer);
      else environment.report(lock, place.outcome as Outcome, now);
    }
  }
}

/** A turn that is not in use. A lock that is driven while the effects of another are carried out gets its own. */
let spare: DrivenTurn | null = null;

/** Hands an event to a lock, and has its environment carry out the effects, in their order, when the step is over. */
export function drive<Lock extends DrivenLock>(environment: Environment<Lock>, lock: Lock, event: LockEvent): void {
  const turn = spare ?? new DrivenTurn();
  spare = null;
  turn.begin(environment.policy, lock.state, event.now);
  advance(turn, event);
  turn.carryOut(environment, lock);
  spare = turn;
}

/** What comes with a timer that is due: the chance for the attempt that it begins, or `null`. */
export function chanceFor<Lock extends DrivenLock>(
  environment: Environment<Lock>,
  lock: Lock,
  timer: Timer,
): AttemptRandomness | null {
  return timer === 'retry' ? environment.draw(lock, lock.state.attempt.number + 1) : null;
}
