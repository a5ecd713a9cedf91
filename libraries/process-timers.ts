import { type LocalTime, later } from '../core/index.js';
import type { QueueEvent } from '../sim/index.js';
import type { OwnedTimer } from './runtime/owner.js';

/** What a timer calls that is over: what it was set for is not kept. */
const NOTHING = (): void => {};

/** A timer of library code, in the list of those of its process that are not over. */
export class LibraryTimer implements OwnedTimer {
  readonly id: number;
  callback: () => void;
  /** For how long it waits, µs. */
  readonly delayUs: number;
  readonly repeats: boolean;
  at: LocalTime;
  /** What will wake its process; `null` once it is over. */
  event: QueueEvent | null = null;
  /** Those beside it in the list. */
  before: LibraryTimer | null = null;
  behind: LibraryTimer | null = null;
  private readonly timers: ProcessTimers;

  constructor(timers: ProcessTimers, id: number, { callback, delayUs, repeats, at }: Planned) {
    this.timers = timers;
    this.id = id;
    this.callback = callback;
    this.delayUs = delayUs;
    this.repeats = repeats;
    this.at = at;
  }

  cancel(): void {
    if (this.event === null) return;
    this.event = null;
    // Its event stays in the queue until it is due.
    this.callback = NOTHING;
    this.timers.ended(this);
  }
}

type Planned = Pick<LibraryTimer, 'callback' | 'delayUs' | 'repeats' | 'at'>;

/** The timers and immediates of one simulated process. */
export class ProcessTimers {
  private readonly push: (timer: LibraryTimer, at: LocalTime) => QueueEvent;
  /** In the order in which they were set. */
  private first: LibraryTimer | null = null;
  private last: LibraryTimer | null = null;
  private immediates: { readonly callback: () => void; cancelled: boolean }[] = [];
  private count = 0;

  /** @param push - Has the process woken about a timer, at a reading of its monotonic clock. */
  constructor(push: (timer: LibraryTimer, at: LocalTime) => QueueEvent) {
    this.push = push;
  }

  set(callback: () => void, now: LocalTime, delayUs: number, repeats: boolean): LibraryTimer {
    const at = later(now, delayUs);
    const timer = new LibraryTimer(this, ++this.count, { callback, delayUs, repeats, at });
    const { last } = this;
    timer.before = last;
    if (last === null) this.first = timer;
    else last.behind = timer;
    this.last = timer;
    timer.event = this.push(timer, at);
    return timer;
  }

  /** A timer is over. */
  ended({ before, behind }: LibraryTimer): void {
    if (before === null) this.first = behind;
    else before.behind = behind;
    if (behind === null) this.last = before;
    else behind.before = before;
  }

  of(id: number): LibraryTimer | undefined {
    for (let timer = this.last; timer !== null; timer = timer.before) if (timer.id === id) return timer;
    return undefined;
  }

  /** A timer's event is there: fires, unless its clock shows less than it should. */
  fire(timer: LibraryTimer, now: LocalTime): void {
    if (now < timer.at) {
      timer.event = this.push(timer, timer.at);
      return;
    }
    const { callback } = timer;
    if (!timer.repeats) timer.cancel();
    else {
      timer.at = later(now, timer.delayUs);
      timer.event = this.push(timer, timer.at);
    }
    callback();
  }

  /** The clock changed: all are due at other true times now. */
  rearm(): void {
    for (let timer = this.first; timer !== null; timer = timer.behind) timer.event = this.push(timer, timer.at);
  }

  setImmediate(callback: () => void): OwnedTimer {
    const entry = { callback, cancelled: false };
    this.immediates.push(entry);
    return {
      id: ++this.count,
      cancel: () => {
        entry.cancelled = true;
      },
    };
  }

  get hasImmediates(): boolean {
    return this.immediates.length > 0;
  }

  /** Runs the first; between two of them, what follows from one is drained. */
  runImmediates(): void {
    const entry = this.immediates.shift();
    if (entry !== undefined && !entry.cancelled) entry.callback();
  }

  /** The process is dead. */
  clear(): void {
    for (let timer = this.first; timer !== null; timer = timer.behind) timer.event = null;
    this.first = null;
    this.last = null;
    this.immediates = [];
  }
}
