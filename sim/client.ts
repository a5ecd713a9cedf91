import {
  type Answer,
  advance,
  type Chance,
  type Effect,
  type LocalTime,
  type LockEvent,
  type LockPolicy,
  type Outcome,
  type Timer,
  type Token,
} from '../core/index.js';
import { lockPolicyOf, type Policy } from '../deviations/index.js';
import { ClientProcess, type ClientSeat } from './client-process.js';
import type { Clock } from './clock.js';
import type { LockRun } from './lock-run.js';
import type { Message } from './message.js';
import { Kind } from './trace.js';

const TIMERS: readonly Timer[] = ['attempt', 'extension', 'release', 'retry', 'expiry', 'auto-extend'];

function slotOf(timer: Timer): number {
  switch (timer) {
    case 'attempt':
      return 0;
    case 'extension':
      return 1;
    case 'release':
      return 2;
    case 'retry':
      return 3;
    case 'expiry':
      return 4;
    case 'auto-extend':
      return 5;
  }
}

/** A client process that drives `core`'s lock with its own clock, and carries out what it asks for. */
export class SimClient extends ClientProcess {
  private readonly policy: Policy;
  private readonly lockPolicy: LockPolicy;
  /** The token that it drew last, where one serves as long as the process lives; 0 for none. */
  private ownToken = 0;

  constructor(seat: ClientSeat) {
    super(seat, seat.policy.clock);
    this.policy = seat.policy;
    this.lockPolicy = lockPolicyOf(seat.policy);
  }

  protected override get timerClock(): Clock {
    return this.clock;
  }

  private localNow(): LocalTime {
    return this.clock.read(this.chronicle.now);
  }

  override acquire(lock: LockRun): void {
    this.chronicle.called(Kind.call, lock);
    const chance = this.chance(lock, 0);
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
    if (timer === 'retry') {
      this.step(lock, { type: 'timer', now, timer, chance: this.chance(lock, lock.state.attempt.number + 1) });
      if (lock.state.phase !== 'failed') this.host.attempted(lock);
    } else if (timer !== undefined) this.step(lock, { type: 'timer', now, timer, chance: null });
  }

  protected override release(lock: LockRun): void {
    this.chronicle.called(Kind['release-call'], lock);
    if (this.policy.beliefEnds === 'at-release') this.chronicle.ended(lock, 'released');
    this.step(lock, { type: 'release', now: this.localNow() });
  }

  protected override extend(lock: LockRun, ttlMs: number): void {
    this.step(lock, { type: 'extend', now: this.localNow(), ttlMs });
  }

  /** 0 once it was told of the loss. */
  protected override remaining(lock: LockRun): number {
    return lock.state.phase === 'held' ? Math.max(0, lock.state.hold.deadline - this.localNow()) : 0;
  }

  private chance(lock: LockRun, attempt: number): Chance {
    const { policy } = this;
    const fresh = policy.tokenFrom === 'random' && policy.tokenScope !== 'instance';
    const number = fresh ? this.chronicle.newToken(lock) : this.oldToken(policy, lock);
    const token = number as unknown as Token;
    return { token, jitterPpm: this.host.jitterPpm(lock, attempt) };
  }

  /** A token that somebody may have had before: this process itself, or whoever drew one at the same time. */
  private oldToken({ tokenFrom, tokenScope }: Policy, lock: LockRun): number {
    const { chronicle } = this;
    if (tokenScope === 'instance' && this.ownToken > 0) {
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
    const { state } = lock;
    const { deadline } = state.hold;
    const effects = advance(this.lockPolicy, state, event);
    this.steps++;
    if (state.attempt.token !== null) lock.token = state.attempt.token as unknown as number;
    // Not `for … of`: this is the hottest loop there is.
    for (let i = 0; i < effects.length; i++) {
      const effect = effects[i] as Effect;
      switch (effect.type) {
        case 'send':
          this.host.send(lock, effect.to, effect.command);
          break;
        case 'arm':
          this.arm(lock, slotOf(effect.timer), effect.at);
          break;
        case 'cancel':
          lock.armed[slotOf(effect.timer)] = null;
          break;
        case 'report':
          this.report(lock, effect.outcome, deadline);
          break;
      }
    }
  }

  private report(lock: LockRun, outcome: Outcome, before: LocalTime): void {
    const { chronicle, host } = this;
    switch (outcome.type) {
      case 'acquired':
        this.planWork(lock);
        chronicle.claimed(lock);
        host.claimed(lock);
        break;
      case 'extended':
        chronicle.extended(lock, before);
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
