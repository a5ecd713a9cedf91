import type { Habits } from '../deviations/index.js';
import type { Suspend } from '../scenarios/index.js';
import { Clock } from './clock.js';
import type { TrueTime } from './time.js';

/**
 * The three clocks of a client's machine. They run at one rate, which slewing changes for all of them; only the wall
 * clock can be set, and the monotonic clock stops while the machine is suspended, as CLOCK_MONOTONIC of Linux.
 */
export class Clocks {
  readonly boot: Clock;
  readonly monotonic: Clock;
  readonly wall: Clock;

  constructor(offsetUs: number, ratePpm: number) {
    this.boot = new Clock(offsetUs, ratePpm);
    this.monotonic = new Clock(offsetUs, ratePpm);
    this.wall = new Clock(offsetUs, ratePpm);
  }

  /** As new ones with this offset and rate. */
  reset(offsetUs: number, ratePpm: number): void {
    this.boot.reset(offsetUs, ratePpm);
    this.monotonic.reset(offsetUs, ratePpm);
    this.wall.reset(offsetUs, ratePpm);
  }

  /** The one that a policy reads. */
  read(kind: Habits['clock']): Clock {
    return this[kind];
  }

  setRate(at: TrueTime, ratePpm: number): void {
    this.boot.setRate(at, ratePpm);
    this.monotonic.setRate(at, ratePpm);
    this.wall.setRate(at, ratePpm);
  }

  /** The machine stops until `until`, and with it the clocks that take no notice of that. */
  suspend(at: TrueTime, until: TrueTime, stops: NonNullable<Suspend['stops']>): void {
    this.monotonic.stop(at, until);
    if (stops === 'monotonic') return;
    this.boot.stop(at, until);
    this.wall.stop(at, until);
  }
}
