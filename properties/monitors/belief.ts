import type { LocalTime } from '../../core/index.js';
import type { SimLock, TrueTime } from '../../sim/index.js';

/** Whether a client believes at `now` that it holds the lock: it was granted, not released, and its clock says so. */
export function believes(lock: SimLock, now: TrueTime): boolean {
  return lock.believes(now);
}

/**
 * The true time at which a claim ends by its client's clock, if nothing changes; if it is over, when it ended: at `from`
 * or at the clock's last change at the earliest.
 */
export function claimEnd(lock: SimLock, from: TrueTime, deadline: LocalTime = lock.state.hold.deadline): TrueTime {
  const { clock } = lock.client;
  return clock.when(deadline, clock.changedAt > from ? clock.changedAt : from);
}

/**
 * Whether a claim that was believed in at `since` ended by its client's clock before this instant. One that ends in this
 * very instant has not lapsed: if its clock is set back in it, the belief goes on without a gap.
 */
export function lapsedBefore(lock: SimLock, since: number, now: TrueTime): boolean {
  return !believes(lock, now) && claimEnd(lock, since as TrueTime) < now;
}

/**
 * Whether an extension in this instant leaves a gap in a claim that was believed in at `since` and ran to the deadline
 * `before`: it had lapsed, which a frozen client does not notice, or the new deadline has passed already.
 */
export function interrupted(lock: SimLock, since: number, before: LocalTime, now: TrueTime): boolean {
  return !believes(lock, now) || claimEnd(lock, since as TrueTime, before) < now;
}
