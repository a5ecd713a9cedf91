import type { SimLock, TrueTime } from '../../sim/index.js';
import { empty, remove, removeAt } from './remove.js';

/** Who asks for locks and who holds them: kept once, for all monitors that want to know. */
export class HolderRegistry {
  /** Locks asked for and not taken yet, and the true times of their first attempts. */
  readonly waiters: SimLock[] = [];
  readonly waitingSince: number[] = [];
  /** Locks that were taken, until their clients are told that they are over, or end them. */
  readonly holders: SimLock[] = [];
  private readonly free: number[] = [];

  /** For another run. */
  reset(): void {
    empty(this.waiters);
    empty(this.waitingSince);
    empty(this.holders);
    for (let key = 0; key < this.free.length; key++) this.free[key] = 0;
  }

  /** An attempt begins; says whether it is the first of its lock. */
  attempted(lock: SimLock, now: TrueTime): boolean {
    if (this.waiters.includes(lock)) return false;
    this.waiters.push(lock);
    this.waitingSince.push(now);
    return true;
  }

  claimed(lock: SimLock): void {
    this.stopped(lock);
    if (!this.holders.includes(lock)) this.holders.push(lock);
  }

  /** The lock is asked for no more: it has failed, or its client is dead. */
  stopped(lock: SimLock): void {
    const at = this.waiters.indexOf(lock);
    if (at < 0) return;
    removeAt(this.waiters, at);
    removeAt(this.waitingSince, at);
  }

  ended(lock: SimLock, now: TrueTime): void {
    remove(this.holders, lock);
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
