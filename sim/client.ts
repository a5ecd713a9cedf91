import {
  type Answer,
  type Chance,
  type Command,
  drive,
  dueTimer,
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
import { ClientProcess, type ClientSeat } from './client-process.js';
import type { Clock } from './clock.js';
import type { LockRun } from './lock-run.js';
import type { Message } from './message.js';
import { Kind } from './trace.js';

/** The timers of `core` by their slot. */
const TIMERS: readonly Timer[] = ['attempt', 'extension', 'release', 'retry', 'expiry', 'auto-extend'];

const SLOTS: Readonly<Record<Timer, number>> = {
  attempt: 0,
  extension: 1,
  release: 2,
  retry: 3,
  expiry: 4,
  'auto-extend': 5,
};

/** A client process that drives `core`'s locks with its own clock. */
export class SimClient extends ClientProcess implements Environment<LockRun> {
  readonly policy: LockPolicy;
  private readonly habits: Habits;
  /** Until when the lock was held that steps, before the step. */
  private heldUntil: LocalTime = localTime(0);
  /** The token that it drew last, where one serves as long as the process lives; 0 for none. */
  private ownToken = 0;

  constructor(seat: ClientSeat) {
    super(seat, seat.policy.habits.clock);
    this.habits = seat.policy.habits;
    this.policy = lockPolicyOf(seat.policy);
  }

  protected override get timerClock(): Clock {
    return this.clock;
  }

  private localNow(): LocalTime {
    return this.clock.read(this.chronicle.now);
  }

  override acquire(lock: LockRun): void {
    this.chronicle.called(Kind.call, lock);
    const chance = this.draw(lock, 0);
    const nodes = lock.list.places;
    this.step(lock, { type: 'acquire', now: this.localNow(), nodes, ttlMs: lock.plan.ttlMs, chance });
    this.host.attempted(lock);
  }

  override receive(message: Message, answer: Answer, counter: number): void {
    const lock = this.locks[message.lock];
    if (lock === undefined) return;
    const now = this.localNow();
    const { command } = message;
    const { operation } = command;
    const { chronicle } = this;
    const isTold = operation === 'acquire' || operation === 'release';
    if (isTold) chronicle.observer.hears(lock, message.node, command, answer);
    this.step(lock, { type: 'reply', now, node: message.place, command, answer, counter });
    if (isTold) chronicle.observer.answered(lock, message.node, command, chronicle.now);
  }

  protected override lockTimer(lock: LockRun, slot: number, now: LocalTime): void {
    const timer = TIMERS[slot];
    if (timer === undefined) return;
    this.step(lock, dueTimer(this, lock, timer, now));
    if (timer === 'retry' && lock.state.phase !== 'failed') this.host.attempted(lock);
  }

  protected override release(lock: LockRun): void {
    this.chronicle.called(Kind['release-call'], lock);
    if (this.habits.beliefEnds === 'at-release') this.chronicle.ended(lock, 'released');
    this.step(lock, { type: 'release', now: this.localNow() });
  }

  protected override extend(lock: LockRun, ttlMs: number): void {
    this.step(lock, { type: 'extend', now: this.localNow(), ttlMs });
  }

  /** 0 once it was told of the loss. */
  protected override remaining(lock: LockRun): number {
    return lock.state.phase === 'held' ? Math.max(0, lock.state.hold.deadline - this.localNow()) : 0;
  }

  draw(lock: LockRun, attempt: number): Chance {
    const { tokenFrom, tokenPerProcess } = this.habits;
    const fresh = tokenFrom === 'random' && !tokenPerProcess;
    const number = fresh ? this.chronicle.newToken(lock) : this.oldToken(lock);
    const token = number as unknown as Token;
    return { token, jitterPpm: this.host.jitterPpm(lock, attempt) };
  }

  /** A token that somebody may have had before: this process itself, or whoever drew one at the same time. */
  private oldToken(lock: LockRun): number {
    const { chronicle, habits } = this;
    const { tokenFrom, tokenPerProcess } = habits;
    if (tokenPerProcess && this.ownToken > 0) {
      chronicle.passOn(this.ownToken, lock);
      return this.ownToken;
    }
    this.ownToken =
      tokenFrom === 'random'
        ? chronicle.newToken(lock)
        : chronicle.tokenAt(this.localNow(), tokenFrom === 'clock' ? 1000 : 1, lock);
    return this.ownToken;
  }

  override die(): void {
    super.die();
    this.ownToken = 0;
  }

  private step(lock: LockRun, event: LockEvent): void {
    this.steps++;
    this.heldUntil = lock.state.hold.deadline;
    drive(this, lock, event);
  }

  send(lock: LockRun, to: NodeSet, command: Command): void {
    lock.token = lock.state.attempt.token as unknown as number;
    this.host.send(lock, to, command);
  }

  arm(lock: LockRun, timer: Timer, at: LocalTime): void {
    this.armSlot(lock, SLOTS[timer], at);
  }

  cancel(lock: LockRun, timer: Timer): void {
    lock.armed[SLOTS[timer]] = null;
  }

  report(lock: LockRun, outcome: Outcome): void {
    const { chronicle, host } = this;
    switch (outcome.type) {
      case 'acquired':
        this.planWork(lock);
        chronicle.claimed(lock);
        host.claimed(lock);
        break;
      case 'extended':
        chronicle.extended(lock, this.heldUntil);
        host.claimed(lock);
        break;
      case 'not-extended':
        chronicle.outcome(Kind['not-extended'], lock, outcome.reason);
        break;
      case 'failed':
        chronicle.failed(lock, outcome.reason);
        host.finished(lock);
        break;
      case 'lost':
        chronicle.expired(lock);
        if (lock.plan.holdUs === null) host.finished(lock);
        break;
      case 'released':
        chronicle.released(lock);
        chronicle.ended(lock, 'released');
        host.finished(lock);
        break;
    }
  }
}
