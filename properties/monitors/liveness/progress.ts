import type { SimLock, TrueTime } from '../../../sim/index.js';
import { instant, type Report } from '../instant.js';
import { empty, removeAt } from '../remove.js';
import type { StablePeriod } from './stable-period.js';

/**
 * Failed rounds of each client that jitter makes all but impossible: with pauses spread over 200 ms and requests that
 * take 12 ms, a round of three clients has no winner in one case of six.
 */
const MOST_FAILED_ROUNDS = 10;

/**
 * Liveness: where several clients ask for a resource that nobody holds, with nothing disturbed, one of them gets it
 * before all have failed in more than {@link MOST_FAILED_ROUNDS} rounds.
 */
export class Progress {
  private calmSince = 0;
  private readonly rivals: SimLock[] = [];
  /** When the attempt under way began, true time, µs; and attempts that have failed since the last disturbance. */
  private readonly begunAt: number[] = [];
  private readonly failures: number[] = [];
  private told = false;
  private readonly calm: StablePeriod;
  private readonly report: Report;

  constructor(calm: StablePeriod, report: Report) {
    this.calm = calm;
    this.report = report;
  }

  /** For another run. */
  reset(): void {
    this.calmSince = 0;
    empty(this.rivals);
    empty(this.begunAt);
    empty(this.failures);
    this.told = false;
  }

  /** A client begins its first attempt. */
  asked(lock: SimLock, now: TrueTime): void {
    this.rivals.push(lock);
    this.begunAt.push(now);
    this.failures.push(0);
  }

  /** Somebody has the lock, or had it until now. */
  moved(): void {
    clear(this.failures);
  }

  /** Nobody is waiting for a client that is gone. */
  left(lock: SimLock): void {
    const at = this.rivals.indexOf(lock);
    if (at < 0) return;
    removeAt(this.rivals, at);
    removeAt(this.begunAt, at);
    removeAt(this.failures, at);
  }

  /** An attempt has failed; `isOpen` says whether clients could have had the lock. */
  failed(lock: SimLock, now: TrueTime, isOpen: (rivals: readonly SimLock[]) => boolean): void {
    if (this.calmSince !== this.calm.since) {
      this.calmSince = this.calm.since;
      clear(this.failures);
    }
    const at = this.rivals.indexOf(lock);
    const begunAt = this.begunAt[at] ?? 0;
    this.begunAt[at] = now;
    if (begunAt < this.calmSince) return;
    const failures = (this.failures[at] ?? 0) + 1;
    this.failures[at] = failures;
    if (failures > MOST_FAILED_ROUNDS && !this.told) this.check(lock, now, isOpen);
  }

  private check(lock: SimLock, now: TrueTime, isOpen: (rivals: readonly SimLock[]) => boolean): void {
    const rivals = this.rivals.filter((it) => it.resources.some((key) => lock.resources.includes(key)));
    if (rivals.length < 2) return;
    if (rivals.some((it) => (this.failures[this.rivals.indexOf(it)] ?? 0) <= MOST_FAILED_ROUNDS)) return;
    if (!isOpen(rivals)) return;
    this.told = true;
    const names = rivals.map((rival) => rival.client.name).join(', ');
    const detail = `${names} have each failed more than ${MOST_FAILED_ROUNDS} times, undisturbed since ${this.calmSince} us, and nobody has the lock`;
    this.report(instant('progress', 'liveness', rivals, now, detail));
  }
}

/** As `fill(0)`, which for a handful of numbers takes much longer than to write them. */
function clear(counts: number[]): void {
  for (let i = 0; i < counts.length; i++) counts[i] = 0;
}
