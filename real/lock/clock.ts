import { uptime } from 'node:os';
import { performance } from 'node:perf_hooks';
import { type LocalTime, localTime } from '../../core/index.js';

/** A clock that locks go by: whole µs from an origin of its own. */
export interface Clock {
  /** The time now. Cheap enough for every reply. */
  now(): LocalTime;
  /** The time now, after a look at whether the machine was suspended. For timers, which fire rarely. */
  checkedNow(): LocalTime;
  /** Milliseconds since the epoch at which `at` will be, by what the wall clock says now. */
  wallMsAt(at: LocalTime): number;
}

/** Where a clock reads time. Tests hand in their own. */
export interface TimeSources {
  /** Never steps, but may stand still while the machine is suspended, µs. */
  monotonicUs(): number;
  /** Steps when somebody sets it, and jumps ahead after a suspend; in steps of 1 ms, ms. */
  wallMs(): number;
  /** Time since boot including suspends, µs; `null` where the system does not tell. */
  bootUs(): number | null;
  /** What boot time comes in steps of, µs. */
  readonly bootStepUs: number;
}

/** Kernel ticks, as `/proc/uptime` and `GetTickCount64` have them; macOS tells whole seconds. */
const BOOT_STEPS_US: { readonly [platform: string]: number } = { linux: 10_000, win32: 16_000 };
const COARSEST_BOOT_STEP_US = 1_000_000;

/**
 * What `os.uptime()` comes in steps of, µs.
 *
 * @param versions - As `process.versions`: Bun and Deno tell whole seconds on all platforms.
 */
export function bootStepOf(platform: string, versions: object): number {
  if ('bun' in versions || 'deno' in versions) return COARSEST_BOOT_STEP_US;
  return BOOT_STEPS_US[platform] ?? COARSEST_BOOT_STEP_US;
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
  bootStepUs: bootStepOf(process.platform, process.versions),
};

/** The wall clock is read in steps of this, so that a difference to it varies by as much for no reason, either way. */
const WALL_STEP_US = 1000;
/** Readings of which the least counts, since the process may be stopped between a reading of one clock and the other. */
const READINGS = 3;

/**
 * The process's own clock for locks: monotonic, in whole microseconds, and running on while the machine is suspended.
 *
 * Monotonic time stops during a suspend, so a lock would outlive its keys by the length of it. The wall clock jumps
 * ahead after one, but also when somebody sets it; time since boot tells which, but only to a kernel tick, and takes 5 µs
 * to read. So whenever the wall clock moved against the monotonic clock, boot time says how much of that a suspend can have
 * been, and all of that counts as one: a claim rather ends early than late. Steps forward of the wall clock cost claims
 * two ticks in all.
 *
 * A suspend of 2 ms or less may go unnoticed: it is a part of what the drift allowance is for. One that a step back of the
 * wall clock hides at the same time is noticed from two ticks on. A paused virtual machine shows on no clock at all.
 */
export class LocalClock implements Clock {
  readonly #sources: TimeSources;
  /** Suspended time, as much as it can have been, µs. Only grows, so that the clock never goes back. */
  #suspendedUs = 0;
  /** Wall and boot time minus monotonic time: the one when it last moved, the other at the start, µs. */
  #wallLeadUs: number;
  readonly #bootLeadUs: number | null;

  constructor(sources: TimeSources = SYSTEM) {
    this.#sources = sources;
    const bootUs = sources.bootUs();
    // Read last, so that a process stopped in between counts too much as suspended later, not too little.
    this.#bootLeadUs = bootUs === null ? null : bootUs - sources.monotonicUs();
    this.#wallLeadUs = this.#readWallLead();
  }

  now(): LocalTime {
    const monotonicUs = this.#sources.monotonicUs();
    const movedUs = this.#sources.wallMs() * 1000 - monotonicUs - this.#wallLeadUs;
    if (movedUs > WALL_STEP_US || movedUs < -WALL_STEP_US) this.#onWallMoved();
    return localTime(Math.floor(monotonicUs + this.#suspendedUs));
  }

  checkedNow(): LocalTime {
    this.#findSuspend(0);
    return this.now();
  }

  wallMsAt(at: LocalTime): number {
    return Math.floor(this.#sources.wallMs() + (at - this.now()) / 1000);
  }

  #onWallMoved(): void {
    const wallLeadUs = this.#readWallLead();
    const movedUs = wallLeadUs - this.#wallLeadUs;
    if (Math.abs(movedUs) <= WALL_STEP_US) return;
    this.#wallLeadUs = wallLeadUs;
    this.#findSuspend(movedUs > 0 ? movedUs + WALL_STEP_US : 0);
  }

  /** Counts a suspend that boot time shows, or allows while the wall clock shows one of up to `shownUs`. */
  #findSuspend(shownUs: number): void {
    const mostUs = this.#mostSuspendedUs();
    if (mostUs === null) return;
    const shows = mostUs - 2 * this.#sources.bootStepUs > this.#suspendedUs;
    const countedUs = shows ? mostUs : Math.min(mostUs, this.#suspendedUs + shownUs);
    this.#suspendedUs = Math.max(this.#suspendedUs, Math.ceil(countedUs));
  }

  #readWallLead(): number {
    return least(() => {
      const monotonicUs = this.#sources.monotonicUs();
      return this.#sources.wallMs() * 1000 - monotonicUs;
    });
  }

  /** The longest that the machine can have been suspended in all, by boot time; `null` if that is not to be had. */
  #mostSuspendedUs(): number | null {
    const bootLeadUs = this.#bootLeadUs;
    if (bootLeadUs === null) return null;
    return least(() => {
      const monotonicUs = this.#sources.monotonicUs();
      const bootUs = this.#sources.bootUs() ?? Number.NEGATIVE_INFINITY;
      return bootUs - monotonicUs - bootLeadUs + this.#sources.bootStepUs;
    });
  }
}

function least(read: () => number): number {
  let least = read();
  for (let i = 1; i < READINGS; i++) least = Math.min(least, read());
  return least;
}
