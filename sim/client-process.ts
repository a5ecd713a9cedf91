import { type Answer, type Command, type LocalTime, later, type NodeSet } from '../core/index.js';
import type { Habits, Policy } from '../deviations/index.js';
import type { LockPlan, ProcessName, WritePlan } from '../scenarios/index.js';
import type { Clock } from './clock.js';
import { Clocks } from './clocks.js';
import type { Control, Message, RemoteCall } from './message.js';
import type { NodeList } from './node-list.js';
import { Process } from './process.js';
import type { QueueEvent } from './queue.js';
import type { RunContext } from './run-context.js';
import { FIRST_PLAN_SLOT, HOLD_SLOT, SimLock } from './sim-lock.js';
import type { TrueTime } from './time.js';
import { Kind } from './trace.js';

/** What a client needs from the world it lives in. */
export interface ClientHost {
  jitterPpm(lock: SimLock, attempt: number): number;
  /** Sends a command to nodes; with `remote`, what it means there is not the core's to say. */
  send(lock: SimLock, to: NodeSet, command: Command, remote?: RemoteCall | null): void;
  /** Sends what is about a connection, after so long, µs. */
  sendControl(control: Control, afterUs?: number): void;
  /** Has a node send over the connection of a message what was not asked for in it. */
  tell(message: Message, told: number): void;
  /** Has a client woken, about `subject`, when this clock of it shows `at`. */
  pushTimer(client: ClientProcess, subject: object, slot: number, at: LocalTime, clock: Clock): QueueEvent;
  sendWrite(lock: SimLock, index: number): void;
  /** An attempt has begun. */
  attempted(lock: SimLock): void;
  /** The client holds the lock, newly or for longer. */
  claimed(lock: SimLock): void;
  /** The acquisition has come to its end, one way or another. */
  finished(lock: SimLock): void;
  /** A new process is there in the place of one that died. */
  restarted(client: ClientProcess): void;
}

/** The place of a client in a world. */
export interface ClientSlot {
  readonly index: number;
  readonly name: ProcessName;
  readonly context: RunContext;
  readonly host: ClientHost;
  readonly policy: Policy;
  /** The nodes that it is told of, and what it puts before its keys. */
  readonly list: NodeList;
  readonly keyPrefix: string;
  readonly offsetUs: number;
  readonly ratePpm: number;
}

/** Puts a client into its place. */
export type ClientFactory = (seat: ClientSlot) => ClientProcess;

/**
 * A client process: asks for locks as planned, and does under each what is planned. What acquires, extends and releases
 * for it is its kind's affair: the lock of `core`, or somebody else's library.
 */
export abstract class ClientProcess extends Process {
  readonly locks: SimLock[] = [];
  /** Those of earlier runs, to be used again. */
  private readonly spareLocks: SimLock[] = [];
  /** The nodes that it knows of, and what it puts before its keys. */
  list: NodeList;
  keyPrefix: string;
  /** How many times `core` stepped for this client. */
  steps = 0;
  protected readonly clocks: Clocks;
  protected readonly context: RunContext;
  protected readonly host: ClientHost;

  /** `beliefClock` is the one that its beliefs end by. */
  constructor(seat: ClientSlot, beliefClock: Habits['clock']) {
    const clocks = new Clocks(seat.offsetUs, seat.ratePpm);
    super(seat.index, seat.name, seat.index, clocks.read(beliefClock));
    this.clocks = clocks;
    this.context = seat.context;
    this.host = seat.host;
    this.list = seat.list;
    this.keyPrefix = seat.keyPrefix;
  }

  /** As a new one in this place, which is of the same index, context and host. */
  reset({ name, policy, list, keyPrefix, offsetUs, ratePpm }: ClientSlot): void {
    this.resetProcess();
    this.name = name;
    this.clocks.reset(offsetUs, ratePpm);
    this.clock = this.clocks.read(policy.habits.clock);
    this.list = list;
    this.keyPrefix = keyPrefix;
    this.steps = 0;
    for (let lock = this.locks.pop(); lock !== undefined; lock = this.locks.pop()) this.spareLocks.push(lock);
  }

  /** The next acquisition, as planned. */
  plan(plan: LockPlan): SimLock {
    const { locks, list } = this;
    const lock = this.spareLocks.pop() ?? new SimLock(this, locks.length, plan, list);
    lock.reset(this, locks.length, plan, list);
    locks.push(lock);
    return lock;
  }

  /** Calls `acquire`. */
  abstract acquire(lock: SimLock): void;
  /** An answer arrives. */
  abstract receive(message: Message, answer: Answer, counter: number): void;
  /** What is planned under a lock is to be done now. */
  protected abstract release(lock: SimLock): void;
  protected abstract extend(lock: SimLock, ttlMs: number): void;
  /** What the lock tells a client that asks: validity left on its own clock, µs. */
  protected abstract remaining(lock: SimLock): number;
  /** A timer of the lock itself is due, not of the plan. */
  protected abstract lockTimer(lock: SimLock, slot: number, now: LocalTime): void;
  /** The clock that its timers run by. */
  protected abstract get timerClock(): Clock;

  /** A timer is due, unless it was cancelled or its clock was set back. Says whether it fired. */
  wake(subject: object, event: QueueEvent): boolean {
    const lock = subject as SimLock;
    const { slot } = event;
    if (lock.armed[slot] !== event) return false;
    const now = this.timerClock.read(this.context.now);
    if (now < event.local) {
      this.armSlot(lock, slot, event.local);
      return false;
    }
    lock.armed[slot] = null;
    if (slot < HOLD_SLOT) this.lockTimer(lock, slot, now);
    else this.work(lock, slot, event.local);
    return true;
  }

  protected armSlot(lock: SimLock, slot: number, at: LocalTime): void {
    lock.armed[slot] = this.host.pushTimer(this, lock, slot, at, this.timerClock);
  }

  /** Dies: it believes nothing any more, and none of its timers will fire. */
  die(): void {
    this.down = true;
    this.life++;
    this.thaw();
    for (const lock of this.locks) {
      lock.disarm();
      this.context.ended(lock, 'crashed');
    }
  }

  /** A new process takes its place. */
  restart(): void {
    this.started();
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

  /** Its clock changed: every timer is due at another true time now. */
  clockChanged(_now: TrueTime): void {
    for (const lock of this.locks) {
      if (lock.believing) lock.findEnd();
      for (const event of lock.armed) if (event !== null) this.armSlot(lock, event.slot, event.local);
    }
  }

  /** Arms what is planned for after the claim. */
  protected planWork(lock: SimLock): void {
    const { plan } = lock;
    const now = this.timerClock.read(this.context.now);
    if (plan.holdUs !== null) this.armSlot(lock, HOLD_SLOT, later(now, plan.holdUs));
    let slot = FIRST_PLAN_SLOT;
    for (const extension of plan.extensions) this.armSlot(lock, slot++, later(now, extension.afterUs));
    for (const write of plan.writes) {
      this.armSlot(lock, slot, later(now, write.checkAfterUs));
      // The slot behind is for the sending, which is armed by the check.
      slot += 2;
    }
  }

  /** What was due at `due`, which may be long ago: what comes after it counts from the claim as well. */
  private work(lock: SimLock, slot: number, due: LocalTime): void {
    const { plan } = lock;
    if (slot === HOLD_SLOT) {
      this.release(lock);
      return;
    }
    const extension = plan.extensions[slot - FIRST_PLAN_SLOT];
    if (extension !== undefined) {
      this.extend(lock, extension.ttlMs);
      return;
    }
    const offset = slot - FIRST_PLAN_SLOT - plan.extensions.length;
    const index = offset >> 1;
    const write = plan.writes[index];
    if (write === undefined) return;
    if ((offset & 1) === 1) this.host.sendWrite(lock, index);
    else if (this.mayWrite(lock, write)) {
      this.armSlot(lock, slot + 1, later(due, write.sendAfterUs - write.checkAfterUs));
    } else this.context.outcome(Kind['write-skipped'], lock, '');
  }
  /** Whether enough validity is left; noted where the write comes later than this look. */
  private mayWrite(lock: SimLock, { guardUs, checkAfterUs, sendAfterUs }: WritePlan): boolean {
    if (guardUs === null) return true;
    const leftUs = this.remaining(lock);
    if (leftUs < Math.max(1, guardUs)) return false;
    if (sendAfterUs > checkAfterUs) this.context.checked(lock, leftUs);
    return true;
  }
}
