import { Monitors } from '../properties/index.js';
import type { EndCause, LockRun, TrueTime } from '../sim/index.js';

/** The monitors of a run of guests. */
export class GuestMonitors extends Monitors {
  private readonly givenBack = new Set<LockRun>();

  override ended(lock: LockRun, cause: EndCause, now: TrueTime): void {
    if (cause === 'released' && lock.client.clock.read(now) < lock.state.hold.deadline) this.givenBack.add(lock);
    super.ended(lock, cause, now);
  }

  /** A client is not to blame for a write that is on its way when the schedule gives back a lock that it still holds. */
  override written(lock: LockRun, index: number, accepted: boolean, now: TrueTime): void {
    if (!this.givenBack.has(lock)) super.written(lock, index, accepted, now);
  }
}
