import { uptime } from 'node:os';
import { performance } from 'node:perf_hooks';
import { type LocalTime, localTime } from '../core/index.js';

/** Where a clock reads time. Tests hand in their own. */
export interface TimeSources {
  /** Never steps, but may stand still while the machine is suspended, µs. */
  monotonicUs(): number;
  /** Steps when somebody sets it, and jumps ahead after a suspend, ms. */
  wallMs(): number;
  /** Time since boot including suspends, µs, in coarse steps; `null` where the system does not tell. */
  bootUs(): number | null;
}

const SYSTEM: TimeSources = {
  monotonicUs: () => performance.now() * 1000,
  wallMs: () => Date.now(),
  bootUs: () => {
    try {
      return uptime() * 1_000_000;
    } catch {
      return null;
    }
  },
};

/** Boot time comes in steps of 10 ms. */
const BOOT_STEP_US = 10_000;
/** A difference between two clocks below this is reading noise. */
const NOISE_US = 25_000;

/**
 * The process's own clock for locks: monotonic, in whole microseconds, and running on while the machine is suspended.
 *
 * Monotonic time stands still during a suspend, so a lock would outlive its keys by the length of it. Time since boot
 * does not, but a reading takes 5 µs. The wall clock is cheap and jumps after a suspend: whenever it moved against the
 * monotonic clock, boot time is asked whether that was a suspend (which ends locks) or a step (which means nothing).
 * A paused virtual machine shows on no clock and cannot be noticed here.
 */
export class LocalClock {
  readonly #sources: TimeSources;
  /** Suspended time found so far, µs. Only grows, so that the clock never goes back. */
  #suspendedUs = 0;
  /** Wall and boot time minus monotonic time when last compared, µs. */
  #wallLeadUs: number;
  #bootLeadUs: number | null;

  constructor(sources: TimeSources = SYSTEM) {
    this.#sources = sources;
    const monotonicUs = sources.monotonicUs();
    const bootUs = sources.bootUs();
    this.#wallLeadUs = sources.wallMs() * 1000 - monotonicUs;
    this.#bootLeadUs = bootUs === null ? null : bootUs - monotonicUs;
  }

  /** The time now. Cheap enough for every reply. */
  now(): LocalTime {
    const monotonicUs = this.#sources.monotonicUs();
    const wallLeadUs = this.#sources.wallMs() * 1000 - monotonicUs;
    if (Math.abs(wallLeadUs - this.#wallLeadUs) > NOISE_US) {
      this.#wallLeadUs = wallLeadUs;
      this.#findSuspend(monotonicUs);
    }
    return localTime(Math.floor(monotonicUs + this.#suspendedUs));
  }

  /** The time now, compared with boot time in any case. For timers, which fire rarely. */
  checkedNow(): LocalTime {
    this.#findSuspend(this.#sources.monotonicUs());
    return this.now();
  }

  /** Milliseconds since the epoch at which `at` will be, by what the wall clock says now. */
  wallMsAt(at: LocalTime): number {
    return Math.floor(this.#sources.wallMs() + (at - this.now()) / 1000);
  }

  #findSuspend(monotonicUs: number): void {
    if (this.#bootLeadUs === null) return;
    const bootUs = this.#sources.bootUs();
    if (bootUs === null) return;
    const aheadUs = bootUs - monotonicUs - this.#bootLeadUs;
    // Rounded up by a step: rather end a claim early than late.
    if (aheadUs - this.#suspendedUs > NOISE_US) this.#suspendedUs = Math.ceil(aheadUs + BOOT_STEP_US);
  }
}

/** The clock all locks of this process share. */
export const systemClock: LocalClock = new LocalClock();
