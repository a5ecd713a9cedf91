import { type Drift, type NodeSet, size } from '../../core/index.js';
import { type Policy, statedDrift } from '../../deviations/index.js';
import type { SimLock, TrueTime } from '../../sim/index.js';
import { leastDriftUs } from './allowance.js';
import type { AttemptRecord } from './attempt-registry.js';
import { instant, type Report } from './instant.js';

/**
 * State: an extension rests on a majority of nodes that carried it out in this very round, ends no later than the start
 * of the round + TTL − D, and has something left when it is taken for one.
 */
export class Extension {
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

  extended(lock: SimLock, use: AttemptRecord, now: TrueTime): void {
    const wrong = this.whatIsWrong(lock, use, now);
    if (wrong !== null) this.report(instant('extension', 'state', [lock], now, wrong));
  }

  private whatIsWrong(lock: SimLock, use: AttemptRecord, now: TrueTime): string | null {
    const { client, state } = lock;
    const { majority } = lock.list;
    const votes = size((use.extended & lock.voters) as NodeSet);
    if (votes < majority) {
      return `${client.name} takes the lock for extended with ${votes} votes of this round (majority ${majority})`;
    }
    const ttlMs = use.roundTtlMs - this.policy.settings.lockDelayMs;
    const latest = use.roundAt + ttlMs * 1000 - leastDriftUs(this.drift, ttlMs);
    if (state.hold.deadline > latest) {
      return `${client.name} takes the lock for extended by ${state.hold.deadline - latest} us more than its keys are`;
    }
    const left = state.hold.deadline - client.clock.read(now);
    return left > 0 ? null : `${client.name} takes the lock for extended with a validity of ${left} us`;
  }
}
