import {
  type Answer,
  advance,
  type Chance,
  type Command,
  type Effect,
  type LocalTime,
  type LockEvent,
  later,
  localTime,
  type NodeSet,
  type Outcome,
  type Policy,
  type Timer,
  type Token,
} from '../core/index.js';
import type { ProcessName } from '../scenarios/index.js';
import type { Chronicle } from './chronicle.js';
import { Clocks } from './clocks.js';
import { FIRST_PLAN_SLOT, HOLD_SLOT, type LockRun } from './lock-run.js';
import type { Message } from './message.js';
import type { NodeList } from './node-list.js';
import { Process } from './process.js';
import type { QueueEvent } from './queue.js';
import type { TrueTime } from './time.js';
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

/** What a client needs from the world it lives in. */
export interface ClientHost {
  readonly policy: Policy;
  jitterPpm(lock: LockRun, attempt: number): number;
  send(lock: LockRun, to: NodeSet, command: Command): void;
  /** Has the client woken when its clock shows `at`. */
  pushTimer(lock: LockRun, slot: number, at: LocalTime): QueueEvent;
  sendWrite(lock: LockRun, index: number): void;
  /** An attempt has begun. */
  attempted(lock: LockRun): void;
  /** The client holds the lock, newly or for longer. */
  claimed(lock: LockRun): void;
  /** The acquisition has come to its end, one way or another. */
  finished(lock: LockRun): void;
  /** A new process is there in the place of one that died. */
  restarted(client: SimClient): void;
}

/** A client process: drives `core`'s lock with its own clock, and carries out what it asks for. */
export class SimClient extends Process {
  readonly locks: LockRun[] = [];
  /** The nodes that it knows of, and what it puts before its keys. */
  list: NodeList;
  readonly keyPrefix: string;
  /** How many times `core` stepped for this client. */
  steps = 0;
  /** The token that it drew last, where one serves as long as the process lives; 0 for none. */
  private ownToken = 0;
  private readonly clocks: Clocks;
  private readonly chronicle: Chronicle;
  private readonly host: ClientHost;

  constructor(
    index: number,
    name: ProcessName,
    chronicle: Chronicle,
    host: ClientHost,
    list: NodeList,
    keyPrefix: string,
    offsetUs: number,
    ratePpm: number,
  ) {
    const clocks = new Clocks(offsetUs, ratePpm);
    super(index, name, index, clocks.read(host.policy.clock));
    this.clocks = clocks;
    this.chronicle = chronicle;
    this.host = host;
    this.list = list;
    this.keyPrefix = keyPrefix;
  }

  private localNow(): LocalTime {
    return this.clock.read(this.chronicle.now);
  }

  /** Calls `acquire`. */
  acquire(lock: LockRun): void {
    this.chronicle.called(Kind.call, lock);
    const chance = this.chance(lock, 0);
    const nodes = lock.list.places;
    this.step(lock, { type: 'acquire', now: this.localNow(), nodes, ttlMs: lock.plan.ttlMs, chance });
    this.host.attempted(lock);
  }

  /** An answer arrives. */
  receive(message: Message, answer: Answer, counter: number): void {
    const lock = this.locks[message.lock];
    if (lock === undefined) return;
    const now = this.localNow();
    const { command } = message;
    this.step(lock, { type: 'reply', now, node: message.place, command, answer, counter });
    const { operation } = command;
    if (operation === 'acquire' || operation === 'release') {
      this.chronicle.observer.answered(lock, message.node, command, answer, this.chronicle.now);
    }
  }

  /** A timer of one of its locks is due, unless it was cancelled or the clock was set back. Says whether it fired. */
  wake(lock: LockRun, event: QueueEvent): boolean {
    const { slot } = event;
    if (lock.armed[slot] !== event) return false;
    const now = this.localNow();
    if (now < event.local) {
      this.arm(lock, slot, event.local);
      return false;
    }
    lock.armed[slot] = null;
    const timer = TIMERS[slot];
    if (timer === undefined) this.work(lock, slot, now);
    else if (timer === 'retry') {
      this.step(lock, { type: 'timer', now, timer, chance: this.chance(lock, lock.state.attempt + 1) });
      if (lock.state.phase !== 'failed') this.host.attempted(lock);
    } else this.step(lock, { type: 'timer', now, timer, chance: null });
    return true;
  }

  private chance(lock: LockRun, attempt: number): Chance {
    const { policy } = this.host;
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

  private step(lock: LockRun, event: LockEvent): void {
    const { deadline } = lock.state;
    const { state } = lock;
    const effects = advance(this.host.policy, state, event);
    this.steps++;
    if (state.token !== null) lock.token = state.token as unknown as number;
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

  private arm(lock: LockRun, slot: number, at: LocalTime): void {
    lock.armed[slot] = this.host.pushTimer(lock, slot, at);
  }

  /** Dies: it believes nothing any more, and none of its timers will fire. */
  die(): void {
    this.down = true;
    this.life++;
    this.ownToken = 0;
    this.thaw();
    for (const lock of this.locks) {
      lock.armed.fill(null);
      this.chronicle.ended(lock, 'crashed');
    }
  }

  /** A new process takes its place. */
  restart(): void {
    this.down = false;
    this.host.restarted(this);
  }

  /** Somebody sets the wall clock of the machine. */
  stepClock(at: TrueTime, byUs: number): void {
    this.clocks.wall.step(at, byUs);
  }

  setClockRate(at: TrueTime, ratePpm: number): void {
    this.clocks.setRate(at, ratePpm);
  }

  suspendClocks(at: TrueTime, until: TrueTime, stops: 'monotonic' | 'all'): void {
    this.clocks.suspend(at, until, stops);
  }

  /** The clock changed: every timer is due at another true time now. */
  clockChanged(_now: TrueTime): void {
    for (const lock of this.locks) {
      for (const event of lock.armed) if (event !== null) this.arm(lock, event.slot, event.local);
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

  private planWork(lock: LockRun): void {
    const { plan } = lock;
    const now = this.localNow();
    if (plan.holdUs !== null) this.arm(lock, HOLD_SLOT, later(now, plan.holdUs));
    let slot = FIRST_PLAN_SLOT;
    for (const extension of plan.extensions) this.arm(lock, slot++, later(now, extension.afterUs));
    for (const write of plan.writes) {
      this.arm(lock, slot, later(now, write.checkAfterUs));
      // The slot behind is for the sending, which is armed by the check.
      slot += 2;
    }
  }

  private work(lock: LockRun, slot: number, now: LocalTime): void {
    const { plan } = lock;
    if (slot === HOLD_SLOT) {
      this.chronicle.called(Kind['release-call'], lock);
      if (this.host.policy.beliefEnds === 'at-release') this.chronicle.ended(lock, 'released');
      this.step(lock, { type: 'release', now });
      return;
    }
    const extension = plan.extensions[slot - FIRST_PLAN_SLOT];
    if (extension !== undefined) {
      this.step(lock, { type: 'extend', now, ttlMs: extension.ttlMs });
      return;
    }
    const offset = slot - FIRST_PLAN_SLOT - plan.extensions.length;
    const index = offset >> 1;
    const write = plan.writes[index];
    if (write === undefined) return;
    if ((offset & 1) === 1) this.host.sendWrite(lock, index);
    else if (write.guardUs === null || this.remaining(lock, now) >= Math.max(1, write.guardUs)) {
      this.arm(lock, slot + 1, localTime(now + write.sendAfterUs - write.checkAfterUs));
    } else this.chronicle.outcome(Kind['write-skipped'], lock, '');
  }

  /** What the lock tells a client that asks: validity left on its own clock, µs; 0 once it was told of the loss. */
  private remaining(lock: LockRun, now: LocalTime): number {
    return lock.state.phase === 'held' ? Math.max(0, lock.state.deadline - now) : 0;
  }
}
