import { LONGEST_US, type LocalTime, localTime } from '../../core/index.js';
import type { Clock } from '../lock/parts.js';

/** The clock that a client reads, on top of the one of the machine: somebody can set it back, and it can stand still. */
export class ClientClock implements Clock {
  readonly #machine: Clock;
  #behindUs = 0;
  /** What it shows until it goes on. */
  #leastUs = -LONGEST_US;

  constructor(machine: Clock) {
    this.#machine = machine;
  }

  now(): LocalTime {
    return localTime(Math.max(this.#leastUs, this.#machine.now() - this.#behindUs));
  }

  checkedNow(): LocalTime {
    this.#machine.checkedNow();
    return this.now();
  }

  wallMsAt(at: LocalTime): number {
    return this.#machine.wallMsAt(localTime(at + this.#behindUs));
  }

  /** How long it takes until it shows `at`, µs; 0 if it does already. */
  usUntil(at: LocalTime): number {
    return at <= this.now() ? 0 : at + this.#behindUs - this.#machine.now();
  }

  setBack(byUs: number): void {
    this.#behindUs += byUs;
    this.#leastUs -= byUs;
  }

  /** It is stopped from now on for so long. */
  stop(forUs: number): void {
    this.#leastUs = this.now();
    this.#behindUs += forUs;
  }
}
