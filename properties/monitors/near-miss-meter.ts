import type { SimLock, TrueTime } from '../../sim/index.js';
import { trueTime } from '../../sim/index.js';

const START = trueTime(0);

/** How near a run came to a violation of `quorum-backed`, or of `no-stale-write`: what tells a hot search from a mild one. */
export class NearMissMeter {
  /**
   * Least time from the end of a claim by its client's clock to the loss of the majority behind it, µs of true time;
   * infinite where every claim was released in time. Below 0 it is a violation.
   */
  gapUs: number = Number.POSITIVE_INFINITY;
  /** Least number of votes beyond the majority that a claim had left after it had lost one; infinite where none did. */
  spareVotes: number = Number.POSITIVE_INFINITY;

  /** Least time from the arrival of a write to the end of the claim that it was made under, µs. */
  slackUs: number = Number.POSITIVE_INFINITY;

  /** For another run. */
  reset(): void {
    this.gapUs = Number.POSITIVE_INFINITY;
    this.spareVotes = Number.POSITIVE_INFINITY;
    this.slackUs = Number.POSITIVE_INFINITY;
  }

  /** A write reached the resource. */
  written(lock: SimLock, now: TrueTime): void {
    if (lock.believes(now)) this.slackUs = Math.min(this.slackUs, lock.endsAt - now);
  }

  /** A node lost the key of a lock, and so many votes beyond the majority are left: -1 if it is gone with this one. */
  voteLost(lock: SimLock, spare: number, now: TrueTime): void {
    const { phase } = lock.state;
    if (lock.gone || (phase !== 'held' && phase !== 'lost')) return;
    if (lock.believes(now)) {
      if (spare < this.spareVotes) this.spareVotes = spare;
    } else if (spare === -1) {
      const { clock } = lock.client;
      const end = clock.when(lock.state.hold.deadline, START);
      // A clock that was changed since cannot tell any more.
      if (end >= clock.changedAt) this.gapUs = Math.min(this.gapUs, now - end);
    }
  }

  /** Within one millisecond or one vote of a violation. */
  get isNear(): boolean {
    return this.gapUs <= NEAR_US || this.slackUs <= NEAR_US || this.spareVotes <= 0;
  }
}

const NEAR_US = 1000;
