import { deviates, type Policy } from '../../../deviations/index.js';
import { type SimLock, type TrueTime, trueTime } from '../../../sim/index.js';
import { instant, type Report } from '../instant.js';
import { empty, removeAt } from '../remove.js';
import type { Durations } from './durations.js';
import type { StablePeriod } from './stable-period.js';

const NEVER = Number.POSITIVE_INFINITY;

/**
 * Liveness (`fault-tolerance`): every call returns within its own bound, whatever the nodes and the network do. For an
 * acquisition that is looked at try by try: each is over within its time-outs, and the next begins after a pause. A
 * client without time-outs has the TTL for each, because nothing can come of it after that. Where its process is frozen
 * or its clock is changed, the call gets its whole time again.
 */
export class PendingCalls {
  /** No call is due earlier, true time, µs. */
  dueAt: number = NEVER;
  private readonly locks: SimLock[] = [];
  private readonly boundsUs: number[] = [];
  private readonly dues: number[] = [];
  private policy: Policy;
  private pausesAfterLast: boolean;
  private readonly durations: Durations;
  private readonly calm: StablePeriod;
  private readonly report: Report;

  constructor(policy: Policy, durations: Durations, calm: StablePeriod, report: Report) {
    this.policy = policy;
    this.pausesAfterLast = deviates(policy, 'pauses-after-last');
    this.durations = durations;
    this.calm = calm;
    this.report = report;
  }

  /** For another run. */
  reset(policy: Policy): void {
    if (policy !== this.policy) this.pausesAfterLast = deviates(policy, 'pauses-after-last');
    this.policy = policy;
    this.dueAt = NEVER;
    empty(this.locks);
    empty(this.boundsUs);
    empty(this.dues);
  }

  /** A try of an acquisition begins. */
  acquiring(lock: SimLock, now: TrueTime): void {
    const { durations } = this;
    const { places } = lock.list;
    const { ttlMs } = lock.plan;
    const pauses = this.pausesAfterLast || lock.state.attempt.number + 1 !== this.policy.settings.tries;
    const tryUs = durations.attemptUs(places, ttlMs) + durations.cleanUpUs(places, ttlMs);
    this.begin(lock, tryUs + (pauses ? durations.longestPauseUs : 0), now);
  }

  /** `release` is called. What is tried again for ever has no bound. */
  releasing(lock: SimLock, now: TrueTime): void {
    const { releaseTries, retryDelayUs } = this.policy.settings;
    if (releaseTries === null) return;
    const tryUs = this.durations.releaseUs(lock.list.places, lock.plan.ttlMs);
    this.begin(lock, releaseTries * tryUs + (releaseTries - 1) * retryDelayUs, now);
  }

  private begin(lock: SimLock, boundUs: number, now: TrueTime): void {
    let at = this.locks.indexOf(lock);
    if (at < 0) at = this.locks.push(lock) - 1;
    const due = this.calm.after(now, boundUs);
    this.boundsUs[at] = boundUs;
    this.dues[at] = due;
    this.schedule();
  }

  /** A call has returned, or its client is dead. */
  returned(lock: SimLock): void {
    const at = this.locks.indexOf(lock);
    if (at >= 0) this.forget(at);
  }

  private forget(at: number): void {
    removeAt(this.locks, at);
    removeAt(this.boundsUs, at);
    removeAt(this.dues, at);
    this.schedule();
  }

  /** Nearly every call returns in time, so that the time at which it was due is no reason to look. */
  private schedule(): void {
    this.dueAt = NEVER;
    for (let i = 0; i < this.dues.length; i++) this.dueAt = Math.min(this.dueAt, this.dues[i] ?? NEVER);
  }

  /** A client is frozen until then, or its clock changes. */
  delayed(client: number, until: number): void {
    if (client < 0) return;
    for (let i = 0; i < this.locks.length; i++) {
      if (this.locks[i]?.client.index !== client) continue;
      this.dues[i] = Math.max(this.dues[i] ?? 0, this.calm.after(until, this.boundsUs[i] ?? 0));
    }
  }

  /** Tells of the calls that should have returned by `at`. */
  check(at: number): void {
    this.dueAt = NEVER;
    for (let i = this.locks.length - 1; i >= 0; i--) {
      const lock = this.locks[i];
      const due = this.dues[i] ?? NEVER;
      if (lock === undefined || due > at) {
        this.dueAt = Math.min(this.dueAt, due);
        continue;
      }
      const what = lock.believing || lock.state.phase === 'releasing' ? 'a release' : 'a try';
      const detail = `${what} of ${lock.client.name} is not over after the ${this.boundsUs[i]} us that it may take`;
      this.forget(i);
      this.report(instant('fault-tolerance', 'liveness', [lock], trueTime(due), detail));
    }
  }
}
