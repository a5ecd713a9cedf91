import type { SimLock, TrueTime } from '../../sim/index.js';

/** Whether a client believes at `now` that it holds the lock: it was granted, not released, and its clock says so. */
export function believes(lock: SimLock, now: TrueTime): boolean {
  return lock.believes(now);
}

/**
 * The true time at which a claim ends by its client's clock, if nothing changes; if it is over, when it ended: at `from`
 * or at the clock's last change at the earliest.
 */
export function claimEnd({ endsAt }: SimLock, from: TrueTime): TrueTime {
  return endsAt > from ? endsAt : from;
}
