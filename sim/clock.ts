import { LONGEST_US, type LocalTime } from '../core/index.js';
import { type TrueTime, trueTime } from './time.js';

const MILLION = 1_000_000;
const HALF_AN_HOUR = 1_800_000_000;

/**
 * A process's clock: piecewise linear in true time, with an offset, a rate, steps and stops. It computes on what has passed
 * since its last change, so that readings stay exact for months at any rate.
 */
export class Clock {
  private changed: TrueTime = trueTime(0);
  /** From when on it has counted from `base`; ahead while it is stopped. */
  private since: TrueTime = trueTime(0);
  private base: number;
  private ratePpm: number;
  /** How far it drifts in a time, the last that was asked for: one instant is read several times over. */
  private driftTime = 0;
  private driftUs = 0;

  /** `ratePpm` within ±500 000: how many parts per million the clock is too fast. */
  constructor(offsetUs: number, ratePpm: number) {
    this.base = offsetUs;
    this.ratePpm = ratePpm;
  }

  /** As a new one with this offset and rate. */
  reset(offsetUs: number, ratePpm: number): void {
    this.changed = trueTime(0);
    this.since = trueTime(0);
    this.base = offsetUs;
    this.runsAt(ratePpm);
  }

  get rate(): number {
    return this.ratePpm;
  }

  /** When it last jumped, stopped or changed its rate; what it showed before, it can no longer tell. */
  get changedAt(): TrueTime {
    return this.changed;
  }

  /** What the clock shows at `at`, which must not lie before its last change; whole µs, rounded down. */
  read(at: TrueTime): LocalTime {
    const passed = at > this.since ? at - this.since : 0;
    if (this.ratePpm === 0) return (this.base + passed) as LocalTime;
    if (passed !== this.driftTime) {
      this.driftTime = passed;
      this.driftUs = this.drift(passed);
    }
    return (this.base + passed + this.driftUs) as LocalTime;
  }

  /**
   * The least true time, not before `from`, at which the clock shows `local` or later. A timer that fires then is never
   * early. Saturates at {@link LONGEST_US}.
   */
  when(local: LocalTime, from: TrueTime): TrueTime {
    const ahead = local - this.base;
    if (ahead <= 0) return from;
    if (ahead >= LONGEST_US / 2) return trueTime(LONGEST_US);
    let passed = ahead;
    if (this.ratePpm !== 0) {
      passed = Math.floor(ahead / (1 + this.ratePpm / MILLION));
      while (passed + this.drift(passed) >= ahead) passed--;
      while (passed + this.drift(passed) < ahead) passed++;
    }
    const at = this.since + passed;
    return trueTime(at > from ? at : from);
  }

  /** Jumps by `byUs` (either sign) at `at`. */
  step(at: TrueTime, byUs: number): void {
    this.rebase(at, byUs);
  }

  /** Runs at another rate from `at` on. */
  setRate(at: TrueTime, ratePpm: number): void {
    this.rebase(at, 0);
    this.runsAt(ratePpm);
  }

  private runsAt(ratePpm: number): void {
    this.ratePpm = ratePpm;
    this.driftTime = 0;
    this.driftUs = 0;
  }

  /** Stops from `at` until `until`. */
  stop(at: TrueTime, until: TrueTime): void {
    this.rebase(at, 0);
    if (until > this.since) this.since = until;
  }

  private rebase(at: TrueTime, byUs: number): void {
    this.base = this.read(at) + byUs;
    this.changed = at;
    if (at > this.since) this.since = at;
  }

  /** ⌊passed × ppm / 10⁶⌋, split where it is long, because the product leaves the exact integers after hours. */
  private drift(passed: number): number {
    const { ratePpm } = this;
    // The result is a small integer, which the engine adds faster.
    if (passed < HALF_AN_HOUR) return Math.floor((passed * ratePpm) / MILLION) | 0;
    const whole = Math.floor(passed / MILLION);
    return whole * ratePpm + Math.floor(((passed - whole * MILLION) * ratePpm) / MILLION);
  }
}
