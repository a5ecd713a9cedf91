import { type Clock, newRuntime } from '../lock/parts.js';

/** The one clock of a run, and what is to happen by it. Notes how late it was at worst. */
export class ReplayClock {
  /** The clock of the machine, which those of clients are made of. */
  readonly clock: Clock;
  /** µs. */
  latestUs = 0;
  #begun = performance.now();
  readonly #timers = new Set<NodeJS.Timeout>();
  #stopped = false;

  constructor(clock: Clock = newRuntime().clock) {
    this.clock = clock;
  }

  /** The run begins now. */
  start(): void {
    this.#begun = performance.now();
  }

  /** Time from the start, whole µs. */
  nowUs(): number {
    return Math.round((performance.now() - this.#begun) * 1000);
  }

  /** Something that was due has happened so much later. */
  wasLate(byUs: number): void {
    this.latestUs = Math.max(this.latestUs, byUs);
  }

  at(atUs: number, what: () => void): void {
    if (this.#stopped) return;
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        const lateUs = this.nowUs() - atUs;
        // Timers are whole milliseconds, and now and then early.
        if (lateUs < 0) {
          this.at(atUs, what);
          return;
        }
        this.wasLate(lateUs);
        what();
      },
      Math.max(0, (atUs - this.nowUs()) / 1000),
    );
    this.#timers.add(timer);
  }

  in(afterUs: number, what: () => void): void {
    this.at(this.nowUs() + Math.max(0, afterUs), what);
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }
}
