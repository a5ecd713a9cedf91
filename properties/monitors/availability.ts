import { allNodes, type NodeSet, oneNode, union, without } from '../../core/index.js';
import { quorumOf, REFERENCE } from '../../deviations/index.js';
import type { NodeList, Setup, SimLock, TrueTime } from '../../sim/index.js';
import type { AttemptRecord } from './attempt-registry.js';
import type { HolderRegistry } from './holder-registry.js';
import { Orphans } from './orphans.js';
import type { Outage } from './outage.js';
import { remove } from './remove.js';

/**
 * Availability: the times in which too few nodes are up for a quorum; those in which keys that nobody has any use for
 * keep everybody from one ({@link Orphans}), as long as they last longer than the one time-out that a release may take;
 * and waits for a resource that never end although nobody holds it. The last is only told of a wait that lasts to the
 * end of the run and longer than any key, pause and time-out can explain.
 */
export class Availability {
  readonly outages: Outage[] = [];
  private readonly setup: Setup;
  private readonly clients: () => readonly { readonly list: NodeList }[];
  private up: NodeSet;
  /** What each client knows of the nodes. */
  private lists: readonly NodeList[] = [];
  private downSince: number | null = null;
  private longestTtlMs = 0;
  private readonly roster: HolderRegistry;
  private readonly orphans: Orphans;

  /** `clients` are asked which nodes they know of; there is an outage when none of them can reach a quorum of its own. */
  constructor(setup: Setup, roster: HolderRegistry, clients: () => readonly { readonly list: NodeList }[]) {
    const { policy, cluster } = setup;
    this.setup = setup;
    this.roster = roster;
    this.clients = clients;
    this.up = allNodes(cluster.nodes);
    const graceUs = policy.settings.nodeTimeoutUs ?? REFERENCE.settings.nodeTimeoutUs ?? 0;
    this.orphans = new Orphans(roster, (nodes, lists) => this.isQuorum(nodes, lists), graceUs, this.outages);
  }

  /** The run begins. */
  begins(now: TrueTime): void {
    this.membershipChanged(now);
  }

  nodeDown(node: number, now: TrueTime): void {
    this.up = without(this.up, oneNode(node));
    this.reachChanged(now);
  }

  nodeUp(node: number, now: TrueTime): void {
    this.up = union(this.up, oneNode(node));
    this.reachChanged(now);
  }

  membershipChanged(now: TrueTime): void {
    this.lists = this.clients().map(({ list }) => list);
    this.reachChanged(now);
  }

  private reachChanged(now: TrueTime): void {
    if (this.isQuorum(this.up, this.lists)) this.endOutage(now);
    else this.downSince ??= this.goesOn(now);
    this.orphans.reachChanged(this.up, this.lists, now);
  }

  /** When an outage began that has only just ended, and goes on: there was a quorum for no time at all. Else now. */
  private goesOn(now: TrueTime): number {
    const last = this.outages.findLast(({ reason, toUs }) => reason === 'no-quorum-up' && toUs === now);
    if (last === undefined) return now;
    remove(this.outages, last);
    return last.fromUs;
  }

  /** Whether these nodes are a quorum for somebody. */
  private isQuorum(nodes: NodeSet, lists: readonly NodeList[]): boolean {
    const { policy } = this.setup;
    let last: NodeList | null = null;
    for (const list of lists) {
      // Nearly always they all have the same list.
      if (list !== last && list.countOf(nodes) >= quorumOf(policy, list.places)) return true;
      last = list;
    }
    return false;
  }

  /** A client's clock is about to change. */
  clockChanges(client: number, now: TrueTime): void {
    this.orphans.catchUp(now);
    this.orphans.clockChanges(client, now);
  }

  clockChanged(now: TrueTime): void {
    this.orphans.clockChanged(now);
  }

  /** Something is about to happen to the keys on a node, or to a belief. */
  catchUp(now: TrueTime): void {
    this.orphans.catchUp(now);
  }

  /** A node sets a key that nobody has any use for, from `since` on. */
  orphanCame(use: AttemptRecord, since: number, node: number, key: number): void {
    this.orphans.came(use, since, node, key);
  }

  /** Such a key is gone, or another's. */
  orphanWent(use: AttemptRecord, now: TrueTime): void {
    this.orphans.went(use, now);
  }

  /** From `at` on, nobody has any use for the keys of an attempt. */
  orphaned(use: AttemptRecord, at: number): void {
    this.orphans.orphaned(use, at);
  }

  private endOutage(now: TrueTime): void {
    if (this.downSince !== null && this.downSince < now) {
      this.outages.push({ fromUs: this.downSince, toUs: now, reason: 'no-quorum-up' });
    }
    this.downSince = null;
  }

  /** A client begins to ask for a lock, or asks for so much more of it. */
  asked(ttlMs: number): void {
    if (ttlMs > this.longestTtlMs) this.longestTtlMs = ttlMs;
  }

  /** `isFirst` unless it goes on. */
  claimed(lock: SimLock, use: AttemptRecord | undefined, now: TrueTime, isFirst: boolean): void {
    this.orphans.claimed(lock, use, now, isFirst);
  }

  ended(lock: SimLock, now: TrueTime): void {
    this.orphans.ended(lock, now);
  }

  finished(now: TrueTime): void {
    this.endOutage(now);
    this.orphans.finished(now);
    if (this.roster.waiters.length === 0) return;
    const { policy } = this.setup;
    const timeouts = 2 * (policy.settings.nodeTimeoutUs ?? 0);
    const patience =
      (this.longestTtlMs + 1) * 1000 + policy.settings.retryDelayUs + policy.settings.retryJitterUs + timeouts;
    const quorumSince = Math.max(0, ...this.outages.map((outage) => outage.toUs));
    let fromUs: number = now;
    const { waiters, waitingSince, holders } = this.roster;
    for (const [i, lock] of waiters.entries()) {
      if (holders.some((other) => other.resources.some((key) => lock.resources.includes(key)))) continue;
      const free = lock.resources.map((key) => this.roster.freeSince(key));
      const since = Math.max(waitingSince[i] ?? now, lock.client.pausedUntil, quorumSince, ...free);
      fromUs = Math.min(fromUs, since);
    }
    if (now - fromUs > patience) this.outages.push({ fromUs, toUs: now, reason: 'nobody-acquires' });
  }
}
