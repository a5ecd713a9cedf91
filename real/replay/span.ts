import type { Interval } from './observation.js';

/** When looks ended, and by how much all of them together were late until then, µs. */
export interface LookEnd {
  readonly nowUs: number;
  readonly lateUs: number;
}

/** Something that is so for a while. */
export class Span {
  #since: LookEnd | null = null;

  /** Time for which looks were late does not count: what is over may not have been seen in it. */
  see(so: boolean, end: LookEnd, longerThanUs: number, into: Interval[]): void {
    if (so) this.#since ??= end;
    else {
      const since = this.#since ?? end;
      const [fromUs, toUs] = [since.nowUs, end.nowUs];
      if (toUs - fromUs - (end.lateUs - since.lateUs) > longerThanUs) into.push({ fromUs, toUs });
      this.#since = null;
    }
  }
}
