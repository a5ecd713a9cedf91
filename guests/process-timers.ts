import { type LocalTime, later } from '../core/index.js';
import type { QueueEvent } from '../sim/index.js';
import type { OwnedTimer } from './host/owner.js';

/** A timer of guest code. */
export class GuestTimer implements OwnedTimer {
  readonly id: number;
  readonly callback: () => void;
  /** For how long it waits, µs. */
  readonly delayUs: number;
  readonly repeats: boolean;
  at: LocalTime;
  /** What will wake its process; `null` once it is over. */
  event: QueueEvent | null = null;
  private readonly ended: (timer: GuestTimer) => void;

  constructor(
    id: number,
    { callback, delayUs, repeats }: Pick<GuestTimer, 'callback' | 'delayUs' | 'repeats'>,
    at: LocalTime,
    ended: (timer: GuestTimer) => void,
  ) {
    this.id = id;
    this.callback = callback;
    this.delayUs = delayUs;
    this.repeats = repeats;
    this.at = at;
    this.ended = ended;
  }

  cancel(): void {
    this.event = null;
    this.ended(this);
  }
}

/** The timers and immediates of one simulated process. */
export class ProcessTimers {
  private readonly push: (timer: GuestTimer, at: LocalTime) => QueueEvent;
  private readonly timers = new Map<number, GuestTimer>();
  private immediates: { readonly callback: () => void; cancelled: boolean }[] = [];
  private count = 0;

  /** @param push - Has the process woken about a timer, at a reading of its monotonic clock. */
  constructor(push: (timer: GuestTimer, at: LocalTime) => QueueEvent) {
    this.push = push;
  }

  set(callback: () => void, now: LocalTime, delayUs: number, repeats: boolean): GuestTimer {
    const at = later(now, delayUs);
    const timer = new GuestTimer(++this.count, { callback, delayUs, repeats }, at, (it) => this.timers.delete(it.id));
    this.timers.set(timer.id, timer);
    timer.event = this.push(timer, at);
    return timer;
  }

  of(id: number): GuestTimer | undefined {
    return this.timers.get(id);
  }

  /** A timer's event is there: fires, unless its clock shows less than it should. */
  fire(timer: GuestTimer, now: LocalTime): void {
    if (now < timer.at) {
      timer.event = this.push(timer, timer.at);
      return;
    }
    if (!timer.repeats) timer.cancel();
    else {
      timer.at = later(now, timer.delayUs);
      timer.event = this.push(timer, timer.at);
    }
    timer.callback();
  }

  /** The clock changed: all are due at other true times now. */
  rearm(): void {
    for (const timer of this.timers.values()) timer.event = this.push(timer, timer.at);
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
    for (const timer of this.timers.values()) timer.event = null;
    this.timers.clear();
    this.immediates = [];
  }
}
