import { type Drift, type NodeSet, size } from '../../core/index.js';
import { type Policy, statedDrift } from '../../deviations/index.js';
import type { SimLock, TrueTime } from '../../sim/index.js';
import { leastDriftUs } from './allowance.js';
import type { AttemptRecord } from './attempt-registry.js';
import { instant, type Report } from './instant.js';

/**
 * State: a claim rests on a majority of nodes that said yes to this very attempt, ends no later than T1 + TTL − D, and
 * has something left when it is made.
 */
export class Acquisition {
  private policy: Policy;
  private drift: Drift;
  private readonly report: Report;

  constructor(policy: Policy, report: Report) {
    this.policy = policy;
    this.drift = statedDrift(policy);
    this.report = report;
  }

  /** For another run. */
  reset(policy: Policy): void {
    if (policy !== this.policy) this.drift = statedDrift(policy);
    this.policy = policy;
  }

  claimed(lock: SimLock, use: AttemptRecord, now: TrueTime): void {
    const wrong = this.whatIsWrong(lock, use, now);
    if (wrong !== null) this.report(instant('acquisition', 'state', [lock], now, wrong));
  }

  private whatIsWrong(lock: SimLock, use: AttemptRecord, now: TrueTime): string | null {
    const { client, plan, state } = lock;
    const { majority } = lock.list;
    const votes = size((use.granted & lock.voters) as NodeSet);
    if (votes < majority) {
      return `${client.name} claims the lock with ${votes} votes of this attempt (majority ${majority})`;
    }
    const latest = use.startedAt + plan.ttlMs * 1000 - leastDriftUs(this.drift, plan.ttlMs);
    if (state.hold.deadline > latest) {
      return `${client.name} claims the lock for ${state.hold.deadline - latest} us longer than its keys can be relied on`;
    }
    const left = state.hold.deadline - client.clock.read(now);
    if (left > 0 && left >= this.policy.settings.minValidityUs) return null;
    return `${client.name} claims the lock with a validity of ${left} us`;
  }
}
