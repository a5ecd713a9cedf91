import type { LocalTime } from '../../core/index.js';
import type { SimLock, TrueTime } from '../../sim/index.js';
import { removeAt } from './remove.js';

/** Who asks for locks and who holds them: kept once, for all monitors that want to know. */
export class HolderRegistry {
  /** Locks asked for and not taken yet, and the true times of their first attempts. */
  readonly waiters: SimLock[] = [];
  readonly waitingSince: number[] = [];
  /** Locks that were taken, until their clients are told that they are over, or end them. */
  readonly holders: SimLock[] = [];
  /** Until when they were told that they hold them: what the lock itself says may have changed in this very step. */
  private readonly deadlines: LocalTime[] = [];
  private readonly free: number[] = [];

  /** An attempt begins; says whether it is the first of its lock. */
  attempted(lock: SimLock, now: TrueTime): boolean {
    if (this.waiters.includes(lock)) return false;
    this.waiters.push(lock);
    this.waitingSince.push(now);
    return true;
  }

  claimed(lock: SimLock): void {
    this.stopped(lock);
    const at = this.holders.indexOf(lock);
    const { deadline } = lock.state.hold;
    if (at >= 0) this.deadlines[at] = deadline;
    else {
      this.holders.push(lock);
      this.deadlines.push(deadline);
    }
  }

  /** Until when the client of a lock holds it by its own clock, as it was told last. */
  deadlineOf(lock: SimLock): LocalTime {
    const at = this.holders.indexOf(lock);
    return at < 0 ? lock.state.hold.deadline : (this.deadlines[at] as LocalTime);
  }

  /** The lock is asked for no more: it has failed, or its client is dead. */
  stopped(lock: SimLock): void {
    const at = this.waiters.indexOf(lock);
    if (at < 0) return;
    removeAt(this.waiters, at);
    removeAt(this.waitingSince, at);
  }

  ended(lock: SimLock, now: TrueTime): void {
    const at = this.holders.indexOf(lock);
    if (at >= 0) {
      removeAt(this.holders, at);
      removeAt(this.deadlines, at);
    }
    for (const key of lock.resources) {
      while (this.free.length <= key) this.free.push(0);
      this.free[key] = now;
    }
  }

  /** When the last belief in a resource ended, true time, µs; 0 if there was none. */
  freeSince(key: number): number {
    return this.free[key] ?? 0;
  }

  /** Whether anybody else asks for or holds one of the lock's resources. */
  hasRivals(lock: SimLock): boolean {
    return shares(lock, this.waiters) || shares(lock, this.holders);
  }
}

function shares(lock: SimLock, others: readonly SimLock[]): boolean {
  for (const other of others) {
    if (other !== lock && other.resources.some((key) => lock.resources.includes(key))) return true;
  }
  return false;
}
