import type { QueueEvent, SimLock } from '../sim/index.js';
import { Extensions } from './extensions.js';
import { Haste } from './haste.js';
import { type Belief, saysNothing } from './lock-under-test.js';

/** A lock that would be held for so many TTLs without an extension is one without an end. */
const LONGEST_TTLS = 100;

/** The work under one lock in so many throws. */
const THROWS_EVERY = 3;

/** Subject of the timer that looks whether a belief is over. */
export class BeliefEnd {
  readonly hold: Hold;
  event: QueueEvent | null = null;

  constructor(hold: Hold) {
    this.hold = hold;
  }
}

/**
 * Until when who asks for a lock that says nothing of itself can rely on it, ms: for its TTL from the call on, less 1 % and 2 ms
 * for clock errors (redis.io, "Distributed Locks with Redis").
 */
export function untilOf(calledMs: number, ttlMs: number): Belief {
  return calledMs + ttlMs - ttlMs / 100 - 2;
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
  /**
   * An extension has not ended. No second one begins: the keys would have the TTL of the one that came last, the lock the TTL of
   * the one that was answered last.
   */
  extending = false;
  /** The release was called. */
  releasing = false;
  over = false;

  /** @param calledMs - When it was asked for, by the wall clock of its process. */
  constructor(lock: SimLock, resource: string, calledMs: number) {
    this.lock = lock;
    this.resource = resource;
    this.calledMs = calledMs;
    this.otherwise = untilOf(calledMs, lock.plan.ttlMs);
  }

  /** Whether the routine of `using` throws. */
  get throws(): boolean {
    return this.lock.number % THROWS_EVERY === 1;
  }

  /** @returns What to call when the extension has ended. */
  extends(ended: () => void): () => void {
    this.extending = true;
    return () => {
      this.extending = false;
      ended();
    };
  }

  /**
   * The first instant, µs, at which the lock no longer says that it is held, if nothing happens but that time passes; `null` for
   * one without an end.
   */
  findEnd(now: number, says: (at: number) => boolean): number | null {
    let [last, first] = [now, now + LONGEST_TTLS * this.lock.plan.ttlMs * 1000];
    // As it was found before, most of the time.
    const { saidUntil } = this;
    if (saidUntil > now && !says(saidUntil) && says(saidUntil - 1)) [last, first] = [saidUntil - 1, saidUntil];
    else if (says(first)) return null;
    this.saidUntil = firstWithout(says, last, first);
    return this.saidUntil;
  }
}

/** The locks that a process has asked for. */
export class Holds extends Map<SimLock, Hold> {
  /** Whether no lock that was acquired says anything of itself. */
  get sayNothing(): boolean {
    return [...this.values()].every(({ held }) => saysNothing(held));
  }

  /** Whether what acquisitions have given tells them apart. */
  get tellApart(): boolean {
    const given = [...this.values()].map(({ held }) => held);
    return new Set(given).size === given.length && given.every((it) => it !== null && it !== true);
  }
}

/** The first instant, µs, at which a lock no longer says that it is held: it does at `last`, and does not at `first`. */
function firstWithout(says: (at: number) => boolean, last: number, first: number): number {
  let [held, over] = [last, first];
  while (over - held > 1) {
    const between = Math.floor((held + over) / 2);
    if (says(between)) held = between;
    else over = between;
  }
  return over;
}
