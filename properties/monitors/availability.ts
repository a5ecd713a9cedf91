import { quorumOf } from '../../core/index.js';
import type { LockRun, Setup, TrueTime } from '../../sim/index.js';

/** When nobody could acquire, and why. */
export interface Outage {
  readonly fromUs: number;
  readonly toUs: number;
  readonly reason: 'no-quorum-up' | 'nobody-acquires';
}

/**
 * Availability: the times in which too few nodes are up for a quorum, and waits for a resource that never end although
 * nobody holds it. The second is only told of a wait that lasts to the end of the run and longer than any key, pause
 * and time-out can explain.
 */
export class Availability {
  readonly outages: Outage[] = [];
  private readonly setup: Setup;
  private up: number;
  private readonly quorum: number;
  private downSince: number | null = null;
  private readonly waiting = new Set<LockRun>();
  /** By key: since when somebody has waited and nobody held it, if so now. */
  private readonly idleSince: number[] = [];

  constructor(setup: Setup) {
    this.setup = setup;
    this.up = setup.cluster.nodes;
    this.quorum = quorumOf(setup.policy, setup.cluster.nodes);
  }

  nodeDown(now: TrueTime): void {
    this.up--;
    if (this.up === this.quorum - 1) this.downSince = now;
  }

  nodeUp(now: TrueTime): void {
    this.up++;
    if (this.up === this.quorum) this.endOutage(now);
  }

  private endOutage(now: TrueTime): void {
    if (this.downSince !== null && this.downSince < now) {
      this.outages.push({ fromUs: this.downSince, toUs: now, reason: 'no-quorum-up' });
    }
    this.downSince = null;
  }

  attempted(lock: LockRun, now: TrueTime): void {
    this.waiting.add(lock);
    for (const key of lock.keys) this.idleSince[key] ??= now;
  }

  claimed(lock: LockRun): void {
    this.waiting.delete(lock);
    for (const key of lock.keys) delete this.idleSince[key];
  }

  failed(lock: LockRun): void {
    this.waiting.delete(lock);
  }

  ended(lock: LockRun, now: TrueTime): void {
    for (const key of lock.keys) this.idleSince[key] = now;
  }

  finished(now: TrueTime): void {
    this.endOutage(now);
    const { policy } = this.setup;
    for (const lock of this.waiting) {
      if (lock.client.down) continue;
      const patience =
        (lock.plan.ttlMs + 1) * 1000 + policy.retryDelayUs + policy.retryJitterUs + 2 * (policy.nodeTimeoutUs ?? 0);
      const since = Math.max(...lock.keys.map((key) => this.idleSince[key] ?? now));
      const known = this.outages.some((outage) => outage.toUs >= now);
      if (now - since > patience && !known) this.outages.push({ fromUs: since, toUs: now, reason: 'nobody-acquires' });
    }
  }
}
