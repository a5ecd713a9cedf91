import { NO_NODES, type NodeSet, oneNode, union, without } from '../../core/index.js';
import { type LockRun, type TrueTime, trueTime } from '../../sim/index.js';
import { believes } from './belief.js';
import type { Use } from './ledger.js';
import type { Outage } from './outage.js';
import { remove } from './remove.js';

const NEVER = Number.POSITIVE_INFINITY;

/**
 * Orphaned keys: those that nobody has any use for, because their attempt failed, their lock was given back, their
 * client died, or the TTL that they were set for is over. While too few nodes are free of them for a quorum, and nobody
 * holds the resource, it is unavailable although enough nodes are up.
 */
export class Orphans {
  /** With keys on nodes, or with keys that will be orphans soon. */
  private readonly orphans: Use[] = [];
  /** When time alone makes the next of them an orphan. */
  private nextAt = NEVER;
  private up: NodeSet;
  private readonly held: LockRun[] = [];
  /** By key: since when orphans are in everybody's way, or -1. */
  private readonly blockedSince: number[] = [];
  private readonly isQuorum: (nodes: NodeSet) => boolean;
  private readonly graceUs: number;
  private readonly outages: Outage[];

  /** Adds to `outages` what lasts longer than `graceUs`. */
  constructor(nodes: NodeSet, isQuorum: (nodes: NodeSet) => boolean, graceUs: number, outages: Outage[]) {
    this.up = nodes;
    this.isQuorum = isQuorum;
    this.graceUs = graceUs;
    this.outages = outages;
  }

  /** From `at` on, nobody has any use for what a token has set. */
  orphaned(use: Use, at: number, now: TrueTime): void {
    if (use.orphanedAt !== null && use.orphanedAt <= at) return;
    this.catchUp(now);
    use.orphanedAt = at;
    if (at > now && at < this.nextAt) this.nextAt = at;
    if (use.holding !== NO_NODES && !this.orphans.includes(use)) this.orphans.push(use);
    this.lookAt(use.lock, now);
  }

  /** A node has set or lost a key of an orphan; {@link catchUp} came before. */
  changed(use: Use, now: TrueTime): void {
    if (use.holding === NO_NODES) remove(this.orphans, use);
    else if (!this.orphans.includes(use)) this.orphans.push(use);
    this.lookAt(use.lock, now);
  }

  /** A client believes that it holds the lock, perhaps by keys that were taken for orphans. */
  claimed(lock: LockRun, use: Use | undefined, now: TrueTime): void {
    this.catchUp(now);
    if (use !== undefined && use.orphanedAt !== null) {
      use.orphanedAt = null;
      remove(this.orphans, use);
    }
    if (!this.held.includes(lock)) this.held.push(lock);
    this.lookAt(lock, now);
  }

  ended(lock: LockRun, now: TrueTime): void {
    remove(this.held, lock);
    this.lookAt(lock, now);
  }

  nodeDown(node: number, now: TrueTime): void {
    this.catchUp(now);
    this.up = without(this.up, oneNode(node));
    this.lookAtAll(now);
  }

  nodeUp(node: number, now: TrueTime): void {
    this.catchUp(now);
    this.up = union(this.up, oneNode(node));
    this.lookAtAll(now);
  }

  /** Somebody counts other nodes now. */
  membershipChanged(now: TrueTime): void {
    this.catchUp(now);
    this.lookAtAll(now);
  }

  finished(now: TrueTime): void {
    this.catchUp(now);
    this.orphans.length = 0;
    this.lookAtAll(now);
  }

  /** Time may have made orphans since the last look: they are in the way from then on, and not from now. */
  catchUp(now: TrueTime): void {
    while (now > this.nextAt) {
      const then = this.nextAt;
      this.nextAt = NEVER;
      for (const { orphanedAt } of this.orphans) {
        if (orphanedAt !== null && orphanedAt > then && orphanedAt < this.nextAt) this.nextAt = orphanedAt;
      }
      this.lookAtAll(trueTime(then));
    }
  }

  private lookAtAll(now: TrueTime): void {
    for (const use of this.orphans) this.lookAt(use.lock, now);
    for (let key = 0; key < this.blockedSince.length; key++) this.look(key, now);
  }

  private lookAt(lock: LockRun, now: TrueTime): void {
    for (const key of lock.resources) this.look(key, now);
  }

  private look(key: number, now: TrueTime): void {
    const since = this.blockedSince[key] ?? -1;
    if (this.orphans.length === 0 && since < 0) return;
    const blocked = this.isBlocked(key, now);
    if (blocked === since >= 0) return;
    while (this.blockedSince.length <= key) this.blockedSince.push(-1);
    this.blockedSince[key] = blocked ? now : -1;
    if (!blocked && now - since > this.graceUs) {
      this.outages.push({ fromUs: since, toUs: now, reason: 'orphaned-keys' });
    }
  }

  /** Whether enough nodes are up for a quorum, but not without those that have orphans, and nobody holds the lock. */
  private isBlocked(key: number, now: TrueTime): boolean {
    let inTheWay = NO_NODES;
    for (const { lock, holding, orphanedAt } of this.orphans) {
      if (orphanedAt !== null && orphanedAt <= now && lock.resources.includes(key)) inTheWay = union(inTheWay, holding);
    }
    if (inTheWay === NO_NODES || this.isQuorum(without(this.up, inTheWay))) return false;
    if (!this.isQuorum(this.up)) return false;
    for (const lock of this.held) if (lock.resources.includes(key) && believes(lock, now)) return false;
    return true;
  }
}
