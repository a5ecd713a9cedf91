import type { LocalTime, Timer } from '../core/index.js';
import type { LocalClock } from './clock.js';

/**
 * The longest single wait, ms. Longer ones are chunked: Node fires at once above 2^31 - 1 ms, and timers stand still
 * while the machine is suspended, so that a chunk is also how late a suspend is noticed.
 */
const LONGEST_WAIT_MS = 1000;

/** Timers in the order of their slots, and whether each keeps the process alive. */
const SLOTS: Readonly<Record<Timer, number>> = {
  attempt: 0,
  extension: 1,
  release: 2,
  retry: 3,
  expiry: 4,
  'auto-extend': 5,
};

/** Somebody waits for these. A lock that is merely held must not keep a process from ending. */
const KEEPS_ALIVE: Readonly<Record<Timer, boolean>> = {
  attempt: true,
  extension: true,
  release: true,
  retry: true,
  expiry: false,
  'auto-extend': false,
};

/**
 * These say that nodes did not answer. After a blocked event loop they are due before the replies that have long
 * arrived are read, so they let the loop read them first.
 */
const AFTER_REPLIES: Readonly<Record<Timer, boolean>> = {
  attempt: true,
  extension: true,
  release: true,
  retry: false,
  expiry: false,
  'auto-extend': false,
};

/** Who is told when a timer is due. */
export interface AlarmOwner {
  onTimer(timer: Timer, now: LocalTime): void;
}

/** The timers of one lock at absolute local times: one of each kind, never early, none left behind. */
export class Alarms {
  readonly #clock: LocalClock;
  readonly #owner: AlarmOwner;
  readonly #handles: (NodeJS.Timeout | undefined)[] = [];
  /** When each is due; `undefined` is not armed. */
  readonly #due: (LocalTime | undefined)[] = [];

  constructor(clock: LocalClock, owner: AlarmOwner) {
    this.#clock = clock;
    this.#owner = owner;
  }

  /** Arms `timer`, instead of when it was armed for before. */
  arm(timer: Timer, at: LocalTime, now: LocalTime): void {
    const slot = SLOTS[timer];
    clearTimeout(this.#handles[slot]);
    this.#due[slot] = at;
    this.#wait(timer, slot, at, now);
  }

  cancel(timer: Timer): void {
    const slot = SLOTS[timer];
    clearTimeout(this.#handles[slot]);
    this.#handles[slot] = undefined;
    this.#due[slot] = undefined;
  }

  #wait(timer: Timer, slot: number, at: LocalTime, now: LocalTime): void {
    const waitMs = Math.min(LONGEST_WAIT_MS, Math.max(0, Math.ceil((at - now) / 1000)));
    const handle = setTimeout(wake, waitMs, this, timer);
    if (!KEEPS_ALIVE[timer]) handle.unref();
    this.#handles[slot] = handle;
  }

  /** A wait is over: the timer is due, or the next chunk begins. */
  wake(timer: Timer): void {
    const slot = SLOTS[timer];
    const at = this.#due[slot];
    if (at === undefined) return;
    const now = this.#clock.checkedNow();
    if (now < at) this.#wait(timer, slot, at, now);
    else if (AFTER_REPLIES[timer]) setImmediate(ringIfStillDue, this, timer, at);
    else this.ring(timer, at);
  }

  /** Tells the owner, unless the timer was cancelled or armed anew meanwhile. */
  ring(timer: Timer, at: LocalTime): void {
    const slot = SLOTS[timer];
    if (this.#due[slot] !== at) return;
    this.#due[slot] = undefined;
    this.#handles[slot] = undefined;
    this.#owner.onTimer(timer, this.#clock.now());
  }
}

// Functions of the module, because a closure for every timer shows in a benchmark.
function wake(alarms: Alarms, timer: Timer): void {
  alarms.wake(timer);
}

function ringIfStillDue(alarms: Alarms, timer: Timer, at: LocalTime): void {
  alarms.ring(timer, at);
}
