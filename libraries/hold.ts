import type { QueueEvent, SimLock } from '../sim/index.js';
import { Extensions } from './extensions.js';
import { Haste } from './haste.js';
import type { Belief } from './lock-under-test.js';

/** Subject of the timer that looks whether a belief is over. */
export class BeliefEnd {
  readonly hold: Hold;
  event: QueueEvent | null = null;

  constructor(hold: Hold) {
    this.hold = hold;
  }
}

/** A lock that the library acquires or has acquired. */
export class Hold {
  readonly lock: SimLock;
  readonly resource: string;
  readonly calledMs: number;
  /** What the library gave for it. */
  held: unknown = null;
  /** True time at which it will say that it is no longer held, as far as that was found; else 0. */
  saidUntil = 0;
  /** Belief, if the held lock says nothing of itself. */
  otherwise: Belief;
  /** Of a lock that is held until it says otherwise. */
  readonly extensions: Extensions = new Extensions();
  readonly haste: Haste = new Haste();
  /** A majority has extended it in this event. */
  isExtended = false;
  /** Lets the routine of `using` end. */
  leave: (() => void) | null = null;
  readonly end: BeliefEnd = new BeliefEnd(this);
  /** The release was called. */
  releasing = false;
  over = false;

  /** @param calledMs - When it was asked for, by the wall clock of its process. */
  constructor(lock: SimLock, resource: string, calledMs: number) {
    this.lock = lock;
    this.resource = resource;
    this.calledMs = calledMs;
    this.otherwise = calledMs + lock.plan.ttlMs;
  }
}

/** The first instant, µs, at which a lock no longer says that it is held: it does at `last`, and does not at `first`. */
export function firstWithout(says: (at: number) => boolean, last: number, first: number): number {
  let [held, over] = [last, first];
  while (over - held > 1) {
    const between = Math.floor((held + over) / 2);
    if (says(between)) held = between;
    else over = between;
  }
  return over;
}
