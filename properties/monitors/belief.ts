import type { LockRun, TrueTime } from '../../sim/index.js';

/** Whether a client believes at `now` that it holds the lock: it was granted, not given back, and its clock says so. */
export function believes(lock: LockRun, now: TrueTime): boolean {
  return lock.believing && lock.client.clock.read(now) < lock.state.deadline;
}

/**
 * The true time at which a claim ends by its client's clock, if nothing changes; if it is over, when it ended: at `from`
 * or at the clock's last change at the earliest.
 */
export function claimEnd(lock: LockRun, from: TrueTime): TrueTime {
  const { clock } = lock.client;
  return clock.when(lock.state.deadline, clock.changedAt > from ? clock.changedAt : from);
}
