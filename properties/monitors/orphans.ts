import { NO_NODES, type NodeSet, oneNode, union, without } from '../../core/index.js';
import { type LockRun, type TrueTime, trueTime } from '../../sim/index.js';
import { believes } from './belief.js';
import type { Use } from './ledger.js';
import type { Outage } from './outage.js';
import { remove, removeAt } from './remove.js';
import type { Roster } from './roster.js';

const NEVER = Number.POSITIVE_INFINITY;

/**
 * Orphaned keys: those that nobody has any use for, because their attempt failed, their lock was given back, their
 * client died, or the TTL that they were set for is over. While too few nodes are free of them for a quorum, and nobody
 * holds the resource, it is unavailable although enough nodes are up. Most orphans are gone as soon as a release gets
 * there, and so they are only looked at when they have been there for as long as that may take.
 */
export class Orphans {
  /** With keys on nodes when they were last looked at, or with keys that will be orphans soon. */
  private readonly orphans: Use[] = [];
  /** When time alone puts the next of them in the way. */
  private nextAt = NEVER;
  private up: NodeSet;
  private lastChangeAt = 0;
  /** By key: since when orphans are in everybody's way, or -1. */
  private readonly blockedSince: number[] = [];
  private readonly roster: Roster;
  private readonly isQuorum: (nodes: NodeSet) => boolean;
  private readonly graceUs: number;
  private readonly outages: Outage[];

  /** Adds to `outages` what lasts longer than `graceUs`. */
  constructor(
    roster: Roster,
    nodes: NodeSet,
    isQuorum: (nodes: NodeSet) => boolean,
    graceUs: number,
    outages: Outage[],
  ) {
    this.roster = roster;
    this.up = nodes;
    this.isQuorum = isQuorum;
    this.graceUs = graceUs;
    this.outages = outages;
  }

  /** From `at` on, nobody has any use for what a token has set. */
  orphaned(use: Use, at: number): void {
    if (use.orphanedAt !== null && use.orphanedAt <= at) return;
    use.orphanedAt = at;
    if (use.holding === NO_NODES) return;
    if (!this.orphans.includes(use)) this.orphans.push(use);
    this.nextAt = Math.min(this.nextAt, at + this.graceUs);
  }

  /** A node has set or lost a key of an orphan; {@link catchUp} came before. */
  changed(use: Use, isSet: boolean, now: TrueTime): void {
    if (isSet) {
      if (!this.orphans.includes(use)) this.orphans.push(use);
      use.orphanedAt = Math.max(use.orphanedAt ?? 0, now);
      this.nextAt = Math.min(this.nextAt, use.orphanedAt + this.graceUs);
    } else if (this.isInTheWay(use, now)) {
      this.lookAt(use.lock, now);
    }
  }

  /** A client believes that it holds the lock, perhaps by keys that were taken for orphans. */
  claimed(lock: LockRun, use: Use | undefined, now: TrueTime): void {
    this.catchUp(now);
    if (use !== undefined && use.orphanedAt !== null) {
      use.orphanedAt = null;
      remove(this.orphans, use);
    }
    this.lookAt(lock, now);
  }

  ended(lock: LockRun, now: TrueTime): void {
    this.lookAt(lock, now);
  }

  nodeDown(node: number, now: TrueTime): void {
    this.catchUp(now);
    this.up = without(this.up, oneNode(node));
    this.lastChangeAt = now;
    this.lookAtAll(now);
  }

  nodeUp(node: number, now: TrueTime): void {
    this.catchUp(now);
    this.up = union(this.up, oneNode(node));
    this.lastChangeAt = now;
    this.lookAtAll(now);
  }

  /** Somebody counts other nodes now. */
  membershipChanged(now: TrueTime): void {
    this.catchUp(now);
    this.lastChangeAt = now;
    this.lookAtAll(now);
  }

  finished(now: TrueTime): void {
    this.catchUp(now);
    this.orphans.length = 0;
    this.lookAtAll(now);
  }

  /** Time may have put orphans in the way since the last look. Comes before anything happens to the keys on nodes. */
  catchUp(now: TrueTime): void {
    while (now > this.nextAt) {
      const then = trueTime(this.nextAt);
      this.nextAt = NEVER;
      for (let i = this.orphans.length - 1; i >= 0; i--) {
        const { holding, orphanedAt } = this.orphans[i] as Use;
        if (holding === NO_NODES || orphanedAt === null) removeAt(this.orphans, i);
        else if (orphanedAt + this.graceUs > then) this.nextAt = Math.min(this.nextAt, orphanedAt + this.graceUs);
      }
      this.lookAtAll(then);
    }
  }

  private isInTheWay(use: Use, now: TrueTime): boolean {
    return use.orphanedAt !== null && use.orphanedAt + this.graceUs <= now;
  }

  private lookAtAll(now: TrueTime): void {
    for (const use of this.orphans) if (this.isInTheWay(use, now)) this.lookAt(use.lock, now);
    for (let key = 0; key < this.blockedSince.length; key++) this.look(key, now);
  }

  private lookAt(lock: LockRun, now: TrueTime): void {
    if (this.orphans.length === 0 && this.blockedSince.length === 0) return;
    for (const key of lock.resources) this.look(key, now);
  }

  private look(key: number, now: TrueTime): void {
    const since = this.blockedSince[key] ?? -1;
    if (this.orphans.length === 0 && since < 0) return;
    const blocked = this.blocked(key, now);
    if (blocked >= 0 === since >= 0) return;
    while (this.blockedSince.length <= key) this.blockedSince.push(-1);
    this.blockedSince[key] = blocked;
    if (blocked < 0 && now - since > this.graceUs) {
      this.outages.push({ fromUs: since, toUs: now, reason: 'orphaned-keys' });
    }
  }

  /**
   * Since when a resource has been blocked, or -1: enough nodes are up for a quorum, but not without those that have
   * orphans, and nobody holds the lock.
   */
  private blocked(key: number, now: TrueTime): number {
    let inTheWay = NO_NODES;
    let since = Math.max(this.lastChangeAt, this.roster.freeSince(key));
    for (const use of this.orphans) {
      if (!this.isInTheWay(use, now) || !use.lock.resources.includes(key)) continue;
      inTheWay = union(inTheWay, use.holding);
      since = Math.max(since, use.orphanedAt ?? 0);
    }
    if (inTheWay === NO_NODES || this.isQuorum(without(this.up, inTheWay))) return -1;
    if (!this.isQuorum(this.up)) return -1;
    for (const lock of this.roster.holders) if (lock.resources.includes(key) && believes(lock, now)) return -1;
    return since;
  }
}
