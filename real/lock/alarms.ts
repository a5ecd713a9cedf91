import { type LocalTime, later, localTime, type Timer } from '../../core/index.js';
import type { Clock } from './clock.js';

/**
 * The longest single wait, ms. Longer ones are chunked: Node fires at once above 2^31 - 1 ms, and timers stand still
 * while the machine is suspended, so that a chunk is also how late a suspend is noticed.
 */
const LONGEST_WAIT_MS = 1000;

/** Somebody waits for the first, one after the other. A lock that is merely held must not keep a process from ending. */
const AWAITED: readonly Timer[] = ['attempt', 'extension', 'release', 'retry'];
const OF_HOLD: readonly Timer[] = ['expiry', 'auto-extend'];

/**
 * These say that nodes did not answer. After a blocked event loop they are due before the replies that have long
 * arrived are read, so they let the loop read them first.
 */
const AFTER_REPLIES: readonly Timer[] = ['attempt', 'extension', 'release'];

/** Who is told when a timer is due. */
interface TimerListener {
  onTimer(timer: Timer, now: LocalTime): void;
}

/**
 * The timers of one lock at absolute local times: one of each kind, never early, and none left behind once
 * {@link LockTimers.clear} was called.
 */
export class LockTimers {
  readonly #awaited: Sleeper;
  readonly #ofHold: Sleeper;

  constructor(clock: Clock, owner: TimerListener) {
    this.#awaited = new Sleeper(AWAITED, true, clock, owner);
    this.#ofHold = new Sleeper(OF_HOLD, false, clock, owner);
  }

  /** Arms `timer`, instead of when it was armed for before. */
  arm(timer: Timer, at: LocalTime, now: LocalTime): void {
    this.#sleeperOf(timer).arm(timer, at, now);
  }

  cancel(timer: Timer): void {
    this.#sleeperOf(timer).cancel(timer);
  }

  isArmed(timer: Timer): boolean {
    return this.#sleeperOf(timer).isArmed(timer);
  }

  /** Leaves nothing of Node behind for timers that were cancelled. */
  rest(): void {
    this.#awaited.rest();
    this.#ofHold.rest();
  }

  /** Cancels all, and lets nothing wake up any more. */
  clear(): void {
    for (const timer of [...AWAITED, ...OF_HOLD]) this.cancel(timer);
    this.rest();
  }

  #sleeperOf(timer: Timer): Sleeper {
    return OF_HOLD.includes(timer) ? this.#ofHold : this.#awaited;
  }
}

/**
 * Timers that share one of Node's. Starting and stopping one for each round trip shows in a benchmark, so one that runs
 * goes on when its timer is cancelled, and serves the next that is due no earlier; where there is none, it wakes up for
 * nothing.
 */
class Sleeper {
  readonly #clock: Clock;
  readonly #owner: TimerListener;
  readonly #timers: readonly Timer[];
  readonly #keepsAlive: boolean;
  /** When each timer is due; `undefined` is not armed. */
  readonly #due: { [timer in Timer]?: LocalTime | undefined } = {};
  #handle: NodeJS.Timeout | undefined;
  #wakesAt: LocalTime = localTime(0);

  constructor(timers: readonly Timer[], keepsAlive: boolean, clock: Clock, owner: TimerListener) {
    this.#timers = timers;
    this.#keepsAlive = keepsAlive;
    this.#clock = clock;
    this.#owner = owner;
  }

  arm(timer: Timer, at: LocalTime, now: LocalTime): void {
    this.#due[timer] = at;
    if (this.#handle === undefined || at < this.#wakesAt) this.#sleep(at, now);
  }

  cancel(timer: Timer): void {
    this.#due[timer] = undefined;
  }

  isArmed(timer: Timer): boolean {
    return this.#due[timer] !== undefined;
  }

  rest(): void {
    if (this.#timers.some((timer) => this.isArmed(timer))) return;
    clearTimeout(this.#handle);
    this.#handle = undefined;
  }

  #sleep(until: LocalTime, now: LocalTime): void {
    clearTimeout(this.#handle);
    const waitMs = Math.min(LONGEST_WAIT_MS, Math.max(0, Math.ceil((until - now) / 1000)));
    this.#wakesAt = later(now, waitMs * 1000);
    this.#handle = setTimeout(wake, waitMs, this);
    if (!this.#keepsAlive) this.#handle.unref();
  }

  /** Timers are due, or the next chunk begins, or nothing is armed any more. */
  wake(): void {
    this.#handle = undefined;
    const now = this.#clock.checkedNow();
    let next: LocalTime | undefined;
    const rings: [Timer, LocalTime][] = [];
    for (const timer of this.#timers) {
      const at = this.#due[timer];
      if (at === undefined) continue;
      if (at <= now) rings.push([timer, at]);
      else if (next === undefined || at < next) next = at;
    }
    if (next !== undefined) this.#sleep(next, now);
    for (const [timer, at] of rings) {
      if (AFTER_REPLIES.includes(timer)) setImmediate(ringIfStillDue, this, timer, at);
      else this.ring(timer, at);
    }
  }

  /** Tells the owner, unless the timer was cancelled or armed again meanwhile. */
  ring(timer: Timer, at: LocalTime): void {
    if (this.#due[timer] !== at) return;
    this.#due[timer] = undefined;
    this.#owner.onTimer(timer, this.#clock.now());
  }
}

// Functions of the module, because a closure for every timer shows in a benchmark.
function wake(sleeper: Sleeper): void {
  sleeper.wake();
}

function ringIfStillDue(sleeper: Sleeper, timer: Timer, at: LocalTime): void {
  sleeper.ring(timer, at);
}
