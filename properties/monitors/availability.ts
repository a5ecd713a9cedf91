import { quorumOf } from '../../core/index.js';
import type { LockRun, Setup, TrueTime } from '../../sim/index.js';
import { remove, removeAt } from './remove.js';

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
  /** Locks asked for and not taken yet, with the times of their first attempts. */
  private readonly waiting: LockRun[] = [];
  private readonly waitingSince: number[] = [];
  private readonly held: LockRun[] = [];
  /** By key: when the last belief in it ended. */
  private readonly freeSince: number[] = [];
  private longestTtlMs = 0;

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
    if (this.waiting.includes(lock)) return;
    this.waiting.push(lock);
    this.waitingSince.push(now);
    const { ttlMs, extensions } = lock.plan;
    if (ttlMs > this.longestTtlMs) this.longestTtlMs = ttlMs;
    for (const extension of extensions) this.longestTtlMs = Math.max(this.longestTtlMs, extension.ttlMs);
  }

  claimed(lock: LockRun): void {
    this.stopWaiting(lock);
    if (!this.held.includes(lock)) this.held.push(lock);
  }

  failed(lock: LockRun): void {
    this.stopWaiting(lock);
  }

  private stopWaiting(lock: LockRun): void {
    const at = this.waiting.indexOf(lock);
    if (at < 0) return;
    removeAt(this.waiting, at);
    removeAt(this.waitingSince, at);
  }

  ended(lock: LockRun, now: TrueTime): void {
    remove(this.held, lock);
    for (const key of lock.keys) {
      while (this.freeSince.length <= key) this.freeSince.push(0);
      this.freeSince[key] = now;
    }
  }

  finished(now: TrueTime): void {
    this.endOutage(now);
    const { policy } = this.setup;
    const timeouts = 2 * (policy.nodeTimeoutUs ?? 0);
    const patience = (this.longestTtlMs + 1) * 1000 + policy.retryDelayUs + policy.retryJitterUs + timeouts;
    const quorumSince = Math.max(0, ...this.outages.map((outage) => outage.toUs));
    let fromUs: number = now;
    for (const [i, lock] of this.waiting.entries()) {
      if (lock.client.down || this.held.some((other) => other.keys.some((key) => lock.keys.includes(key)))) continue;
      const free = lock.keys.map((key) => this.freeSince[key] ?? 0);
      const since = Math.max(this.waitingSince[i] ?? now, lock.client.pausedUntil, quorumSince, ...free);
      fromUs = Math.min(fromUs, since);
    }
    if (now - fromUs > patience) this.outages.push({ fromUs, toUs: now, reason: 'nobody-acquires' });
  }
}
