import { extendsItself } from '../../../core/index.js';
import { type Policy, REFERENCE } from '../../../deviations/index.js';
import { type SimLock, type TrueTime, trueTime } from '../../../sim/index.js';
import { instant, type Report } from '../instant.js';
import { empty, removeAt } from '../remove.js';
import type { StablePeriod } from './stable-period.js';

const NEVER = Number.POSITIVE_INFINITY;

/** Extensions after which a lock ends by itself, under a policy that knows no limit too: the default of the lock. */
const MOST_EXTENSIONS = REFERENCE.settings.maxExtensions ?? 0;

/**
 * Liveness (`deadlock-free`): a lock that extends itself, and that its owner never releases, ends after (M + 1) TTLs.
 * If it does not, no other client ever gets it, if the owner hangs or never releases.
 */
export class UnboundedHold {
  dueAt: number = NEVER;
  private readonly holds: SimLock[] = [];
  private readonly dues: number[] = [];
  private policy: Policy;
  private readonly calm: StablePeriod;
  private readonly report: Report;

  constructor(policy: Policy, calm: StablePeriod, report: Report) {
    this.policy = policy;
    this.calm = calm;
    this.report = report;
  }

  /** For another run. */
  reset(policy: Policy): void {
    this.policy = policy;
    this.dueAt = NEVER;
    empty(this.holds);
    empty(this.dues);
  }

  claimed(lock: SimLock, now: TrueTime): void {
    if (!extendsItself(this.policy.settings) || lock.plan.holdUs !== null || this.holds.includes(lock)) return;
    const most = ((this.policy.settings.maxExtensions ?? MOST_EXTENSIONS) + 1) * lock.plan.ttlMs * 1000;
    this.holds.push(lock);
    this.dues.push(this.calm.after(now, most));
    this.schedule();
  }

  ended(lock: SimLock): void {
    const at = this.holds.indexOf(lock);
    if (at < 0) return;
    removeAt(this.holds, at);
    removeAt(this.dues, at);
    this.schedule();
  }

  private schedule(): void {
    this.dueAt = NEVER;
    for (const due of this.dues) this.dueAt = Math.min(this.dueAt, due);
  }

  check(due: number): void {
    for (let i = this.holds.length - 1; i >= 0; i--) {
      const lock = this.holds[i];
      if (lock === undefined || (this.dues[i] ?? NEVER) > due) continue;
      if (due >= lock.endsAt) {
        this.dues[i] = NEVER;
        continue;
      }
      const frozen = lock.client.pausedUntil > due;
      this.dues[i] = frozen ? lock.client.pausedUntil : NEVER;
      const detail = `${lock.client.name} still extends a lock that it will never release`;
      if (!frozen) this.report(instant('deadlock-free', 'liveness', [lock], trueTime(due), detail));
    }
    this.schedule();
  }
}
