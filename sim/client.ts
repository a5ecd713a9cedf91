import {
  type Answer,
  type AttemptRandomness,
  type Command,
  chanceFor,
  drive,
  type Environment,
  type LocalTime,
  type LockEvent,
  type LockPolicy,
  localTime,
  type NodeSet,
  type Outcome,
  type Timer,
  type Token,
} from '../core/index.js';
import { type Habits, lockPolicyOf } from '../deviations/index.js';
import { ClientProcess, type ClientSlot } from './client-process.js';
import type { Clock } from './clock.js';
import type { Message } from './message.js';
import type { SimLock } from './sim-lock.js';
import { Kind } from './trace.js';

/** The timers of `core` by their slot. */
const TIMERS: readonly Timer[] = ['attempt', 'extension', 'release', 'retry', 'expiry', 'auto-extend'];

/** By comparing words, of which each is one object: to look a name up takes the engine longer. */
function slotOf(timer: Timer): number {
  switch (timer) {
    case 'attempt':
      return 0;
    case 'release':
      return 2;
    case 'expiry':
      return 4;
    case 'retry':
      return 3;
    case 'extension':
      return 1;
    default:
      return 5;
  }
}

/** Whatever happens to a lock: every kind of event in one shape, because the engine is slow where it meets more than four. */
class Occurrence {
  type: LockEvent['type'] = 'release';
  now: LocalTime = localTime(0);
  nodes = 0;
  ttlMs = 0;
  node = 0;
  command: Command | null = null;
  answer: Answer = 'error';
  counter = 0;
  timer: Timer = 'attempt';
  chance: AttemptRandomness | null = null;
}

/** A client process that drives `core`'s locks with its own clock. */
export class SimClient extends ClientProcess implements Environment<SimLock> {
  policy: LockPolicy;
  private habits: Habits;
  /** What is happening to a lock, for the length of a step. */
  private readonly event = new Occurrence();
  /** The token that it drew last, where one serves as long as the process lives; 0 for none. */
  private ownToken = 0;

  constructor(seat: ClientSlot) {
    super(seat, seat.policy.habits.clock);
    this.habits = seat.policy.habits;
    this.policy = lockPolicyOf(seat.policy);
  }

  override reset(seat: ClientSlot): void {
    super.reset(seat);
    this.habits = seat.policy.habits;
    this.policy = lockPolicyOf(seat.policy);
    this.ownToken = 0;
  }

  protected override get timerClock(): Clock {
    return this.clock;
  }

  private localNow(): LocalTime {
    return this.clock.read(this.context.now);
  }

  override acquire(lock: SimLock): void {
    this.context.called(Kind.call, lock);
    const { event } = this;
    event.chance = this.draw(lock, 0);
    event.nodes = lock.list.places;
    event.ttlMs = lock.plan.ttlMs;
    this.step(lock, 'acquire');
    this.host.attempted(lock);
  }

  override receive(message: Message, answer: Answer, counter: number): void {
    const { owner: lock, command } = message;
    const { operation } = command;
    const { context, event } = this;
    const isTold = operation === 'acquire' || operation === 'release';
    if (isTold) context.observer.hears(lock, message.node, command, answer);
    event.node = message.place;
    event.command = command;
    event.answer = answer;
    event.counter = counter;
    this.step(lock, 'reply');
    if (isTold) context.observer.answered(lock, message.node, command, context.now);
  }

  protected override lockTimer(lock: SimLock, slot: number): void {
    const timer = TIMERS[slot];
    if (timer === undefined) return;
    const { event } = this;
    event.timer = timer;
    event.chance = chanceFor(this, lock, timer);
    this.step(lock, 'timer');
    if (timer === 'retry' && lock.state.phase !== 'failed') this.host.attempted(lock);
  }

  protected override release(lock: SimLock): void {
    this.context.called(Kind['release-call'], lock);
    if (this.habits.beliefEnds === 'at-release') this.context.ended(lock, 'released');
    this.step(lock, 'release');
  }

  protected override extend(lock: SimLock, ttlMs: number): void {
    this.event.ttlMs = ttlMs;
    this.step(lock, 'extend');
  }

  /** 0 once it was told of the loss. */
  protected override remaining(lock: SimLock): number {
    return lock.state.phase === 'held' ? Math.max(0, lock.state.hold.deadline - this.localNow()) : 0;
  }

  draw(lock: SimLock, attempt: number): AttemptRandomness {
    const { tokenFrom, tokenPerProcess } = this.habits;
    const fresh = tokenFrom === 'random' && !tokenPerProcess;
    const number = fresh ? this.context.newToken(lock) : this.oldToken(lock);
    const token = number as unknown as Token;
    return { token, jitterPpm: this.host.jitterPpm(lock, attempt) };
  }

  /** A token that somebody may have had before: this process itself, or one that drew its token at the same time. */
  private oldToken(lock: SimLock): number {
    const { context, habits } = this;
    const { tokenFrom, tokenPerProcess } = habits;
    if (tokenPerProcess && this.ownToken > 0) {
      context.passOn(this.ownToken, lock);
      return this.ownToken;
    }
    this.ownToken =
      tokenFrom === 'random'
        ? context.newToken(lock)
        : context.tokenAt(this.localNow(), tokenFrom === 'clock' ? 1000 : 1, lock);
    return this.ownToken;
  }

  override die(): void {
    super.die();
    this.ownToken = 0;
  }

  private step(lock: SimLock, type: LockEvent['type']): void {
    const { event } = this;
    this.steps++;
    event.type = type;
    event.now = this.localNow();
    drive(this, lock, event as LockEvent);
  }

  send(lock: SimLock, to: NodeSet, command: Command): void {
    lock.token = lock.state.attempt.token as unknown as number;
    this.host.send(lock, to, command);
  }

  arm(lock: SimLock, timer: Timer, at: LocalTime): void {
    this.armSlot(lock, slotOf(timer), at);
  }

  cancel(lock: SimLock, timer: Timer): void {
    lock.armed[slotOf(timer)] = null;
  }

  report(lock: SimLock, outcome: Outcome): void {
    const { context, host } = this;
    switch (outcome.type) {
      case 'acquired':
        this.planWork(lock);
        context.claimed(lock);
        host.claimed(lock);
        break;
      case 'extended':
        context.extended(lock);
        host.claimed(lock);
        break;
      case 'not-extended':
        context.outcome(Kind['not-extended'], lock, outcome.reason);
        break;
      case 'failed':
        context.failed(lock, outcome.reason);
        host.finished(lock);
        break;
      case 'lost':
        context.expired(lock);
        if (lock.plan.holdUs === null) host.finished(lock);
        break;
      case 'released':
        context.released(lock);
        context.ended(lock, 'released');
        host.finished(lock);
        break;
    }
  }
}
