import { MOST_NODES, members, NO_NODES, type NodeSet, oneNode, union, without } from '../../core/index.js';
import { type NodeList, type SimLock, type TrueTime, trueTime } from '../../sim/index.js';
import type { AttemptRecord } from './attempt-registry.js';
import type { HolderRegistry } from './holder-registry.js';
import type { Outage } from './outage.js';
import { remove, removeAt } from './remove.js';

const NEVER = Number.POSITIVE_INFINITY;

/** A use whose keys nobody has any use for. */
interface Orphan {
  readonly use: AttemptRecord;
  /** Since when that is so, and by {@link placeOf} where a key of it came later; true time, µs. */
  since: number;
  late: number[] | null;
}

/** Number of a key of a lock, by its place among the lock's keys, on a node. */
function placeOf(key: number, node: number): number {
  return key * MOST_NODES + node;
}

/** Who could be asked from an instant on: the nodes that are up, and what clients know of them. */
interface Reach {
  readonly from: number;
  readonly up: NodeSet;
  readonly lists: readonly NodeList[];
}

/** A time for which orphans were in everybody's way, and what was told of it. */
interface Blocked {
  readonly since: number;
  readonly foundAt: number;
  until: number | null;
  outage: Outage | null;
}

/**
 * Orphaned keys: those that nobody has any use for, because their attempt failed, their lock was released, their
 * client died, or the TTL that they were set for is over. While too few nodes are free of them for a quorum, and nobody
 * believes to hold the resource, it is unavailable although enough nodes are up. Most orphans are gone as soon as a release gets
 * there, and so they are only looked at when they have been there for longer than that may take; then they have been in
 * the way from their beginning.
 */
export class Orphans {
  /** With keys on nodes when they were last looked at, or with keys that will be orphans soon. */
  private readonly orphans: Orphan[] = [];
  /** When time alone may put something in the way, or end a belief that it waits for. */
  private nextAt = NEVER;
  private readonly reach: Reach[] = [];
  /** By key: when orphans were in everybody's way, the last time last. */
  private readonly blocks: Blocked[][] = [];
  private openBlocks = 0;
  /** The last claims of one instant, and its true time, µs. */
  private newest: SimLock[] = [];
  private newestAt = 0;
  private anyLate = false;
  /** By key: when the last belief was over that is known to be, true time, µs. */
  private readonly freeAt: number[] = [];
  /** Holders of whom that is known, though nobody has told them: frozen, or without a timer for it. */
  private readonly lapsed: SimLock[] = [];
  private readonly roster: HolderRegistry;
  private readonly isQuorum: (nodes: NodeSet, lists: readonly NodeList[]) => boolean;
  private readonly graceUs: number;
  private readonly outages: Outage[];

  /** Adds to `outages` what lasts longer than `graceUs`. */
  constructor(
    roster: HolderRegistry,
    isQuorum: (nodes: NodeSet, lists: readonly NodeList[]) => boolean,
    graceUs: number,
    outages: Outage[],
  ) {
    this.roster = roster;
    this.isQuorum = isQuorum;
    this.graceUs = graceUs;
    this.outages = outages;
  }

  /** From `at` on, nobody has any use for what a token has set. */
  orphaned(use: AttemptRecord, at: number): void {
    if (use.holding === NO_NODES) return;
    const orphan = this.orphans.find((it) => it.use === use);
    if (orphan === undefined) this.orphans.push({ use, since: at, late: null });
    else {
      orphan.since = at;
      // Those keys had come when it was not an orphan yet.
      orphan.late = null;
    }
    this.nextAt = Math.min(this.nextAt, at + this.graceUs);
  }

  /** A node has set a key of an orphan, which it is from `since` on; {@link catchUp} came before. */
  came(use: AttemptRecord, since: number, node: number, key: number): void {
    const orphan = this.orphans.find((it) => it.use === use);
    if (orphan === undefined) this.orphans.push({ use, since, late: null });
    else {
      this.anyLate = true;
      orphan.late ??= [];
      orphan.late[placeOf(use.lock.keys.indexOf(key), node)] = since;
    }
    this.nextAt = Math.min(this.nextAt, since + this.graceUs);
  }

  /** An orphan has lost a key. */
  went(use: AttemptRecord, now: TrueTime): void {
    if (this.openBlocks === 0) return;
    // One that has not been in the way yet changes nothing by going; a late key may hide how old the others are.
    if (this.anyLate || (use.orphanedAt ?? now) + this.graceUs < now) this.lookAt(use.lock, now);
  }

  /** A client believes that it holds the lock, perhaps by keys that were taken for orphans. */
  claimed(lock: SimLock, use: AttemptRecord | undefined, now: TrueTime, isFirst: boolean): void {
    if (isFirst || this.lapsed.includes(lock)) this.begins(lock, now);
    if (this.lapsed.length > 0) remove(this.lapsed, lock);
    if (use !== undefined && use.orphanedAt !== null) {
      const at = this.orphans.findIndex((it) => it.use === use);
      if (at >= 0) removeAt(this.orphans, at);
    }
    if (this.openBlocks > 0) this.lookAt(lock, now);
  }

  /** A belief begins, or is back because a clock was set back. */
  private begins(lock: SimLock, now: TrueTime): void {
    if (this.newestAt !== now) this.newest = [];
    this.newestAt = now;
    this.newest.push(lock);
  }

  ended(lock: SimLock, now: TrueTime): void {
    if (this.lapsed.includes(lock)) remove(this.lapsed, lock);
    // One that ends as it begins never was.
    else if (this.newestAt !== now || !this.newest.includes(lock)) this.free(lock, now);
    this.lookAt(lock, now);
  }

  /** Whether a holder's clock says that its claim goes on; of one that is just being told of the end, that it did so far. */
  private holds(lock: SimLock, now: TrueTime): boolean {
    return now < lock.endsAt;
  }

  /** A belief is over by its client's clock; who is frozen is told of it later. */
  private lapses(lock: SimLock, now: TrueTime): void {
    if (this.lapsed.includes(lock)) return;
    this.lapsed.push(lock);
    this.free(lock, now);
  }

  private free(lock: SimLock, now: TrueTime): void {
    const at = Math.min(now, lock.endsAt);
    for (const key of lock.resources) {
      while (this.freeAt.length <= key) this.freeAt.push(0);
      this.freeAt[key] = Math.max(this.freeAt[key] ?? 0, at);
    }
  }

  /** Other nodes are up from now on, or somebody counts other nodes. */
  reachChanged(up: NodeSet, lists: readonly NodeList[], now: TrueTime): void {
    this.catchUp(now);
    this.reach.push({ from: now, up, lists });
    this.lookAtAll(now, now);
  }

  /** A client's clock is about to change: what has lapsed is noted while it can tell when. */
  clockChanges(client: number, now: TrueTime): void {
    for (const lock of this.roster.holders) {
      if (lock.client.index === client && !this.holds(lock, now)) this.lapses(lock, now);
    }
  }

  /** It has changed: a belief may be over, or be back. */
  clockChanged(now: TrueTime): void {
    for (const lock of this.roster.holders) {
      if (!this.holds(lock, now) || !this.lapsed.includes(lock)) continue;
      remove(this.lapsed, lock);
      this.begins(lock, now);
    }
    this.lookAtAll(now, now);
  }

  finished(now: TrueTime): void {
    this.catchUp(now);
    this.orphans.length = 0;
    this.lookAtAll(now, now);
  }

  /** Time may have put orphans in the way since the last look. Comes before anything happens to the keys on nodes. */
  catchUp(now: TrueTime): void {
    while (now > this.nextAt) {
      const then = trueTime(this.nextAt);
      this.nextAt = NEVER;
      for (let i = this.orphans.length - 1; i >= 0; i--) {
        const orphan = this.orphans[i] as Orphan;
        if (orphan.use.holding === NO_NODES) removeAt(this.orphans, i);
        else this.nextAt = Math.min(this.nextAt, this.dueAfter(orphan, then));
      }
      // At the end of that instant.
      this.lookAtAll(then, then + 1);
    }
  }

  /** When a key of an orphan gets in the way next. */
  private dueAfter({ since, late }: Orphan, then: number): number {
    let next = since + this.graceUs > then ? since + this.graceUs : NEVER;
    if (late !== null) for (const it of late) if (it + this.graceUs > then) next = Math.min(next, it + this.graceUs);
    return next;
  }

  private lookAtAll(now: TrueTime, by: number): void {
    if (this.openBlocks === 0 && !this.mayBlock(by)) return;
    let looked = -1;
    for (const { use, since } of this.orphans) {
      if (since + this.graceUs >= by) continue;
      for (const key of use.lock.resources) {
        // Nearly always they are all of the same key.
        if (key !== looked) this.look(key, now, by);
        looked = key;
      }
    }
    if (this.openBlocks === 0) return;
    for (let key = 0; key < this.blocks.length; key++) if (this.openBlock(key) !== undefined) this.look(key, now, by);
  }

  private lookAt(lock: SimLock, now: TrueTime): void {
    if (this.openBlocks === 0 && !this.mayBlock(now)) return;
    for (const key of lock.resources) this.look(key, now, now);
  }

  /** Whether any orphan has been there for long enough before `by`: nearly none ever is. */
  private mayBlock(by: number): boolean {
    const { orphans, graceUs } = this;
    for (let i = 0; i < orphans.length; i++) {
      const { since, use } = orphans[i] as Orphan;
      if (since + graceUs < by && use.holding !== NO_NODES) return true;
    }
    return false;
  }

  /** What has been there for long enough before `by` is in the way. */
  private look(key: number, now: TrueTime, by: number): void {
    const block = this.openBlock(key);
    if (this.orphans.length === 0 && block === undefined) return;
    const isBlocked = this.isBlocked(key, now, by);
    if (isBlocked && block === undefined && !this.goesOn(key, now))
      this.open(key, this.blockedSince(key, now, by), now);
    if (!isBlocked && block !== undefined) this.close(block, now);
  }

  private openBlock(key: number): Blocked | undefined {
    if (this.openBlocks === 0) return undefined;
    const blocks = this.blocks[key];
    const last = blocks?.[blocks.length - 1];
    return last?.until === null ? last : undefined;
  }

  /** What was over in this very instant, and is back, was never over. */
  private goesOn(key: number, now: TrueTime): boolean {
    const last = this.blocks[key]?.at(-1);
    if (last === undefined || last.until !== now || last.foundAt === now) return false;
    this.openBlocks++;
    last.until = null;
    if (last.outage !== null) remove(this.outages, last.outage);
    last.outage = null;
    return true;
  }

  /** What was over when this began, or later, goes on with it. */
  private open(key: number, from: number, now: TrueTime): void {
    this.openBlocks++;
    while (this.blocks.length <= key) this.blocks.push([]);
    const blocks = this.blocks[key] ?? [];
    let since = from;
    for (let last = blocks.pop(); last !== undefined; last = blocks.pop()) {
      if ((last.until ?? NEVER) < since) {
        blocks.push(last);
        break;
      }
      since = Math.min(since, last.since);
      if (last.outage !== null) remove(this.outages, last.outage);
    }
    blocks.push({ since, foundAt: now, until: null, outage: null });
  }

  private close(block: Blocked, now: TrueTime): void {
    this.openBlocks--;
    block.until = now;
    if (now - block.since <= this.graceUs) return;
    block.outage = { fromUs: block.since, toUs: now, reason: 'orphaned-keys' };
    this.outages.push(block.outage);
  }

  /**
   * Enough nodes are up for a quorum, but not without those that have orphans, and nobody believes to hold the lock.
   */
  private isBlocked(key: number, now: TrueTime, by: number): boolean {
    const reach = this.reach[this.reach.length - 1];
    if (reach === undefined) return false;
    let inTheWay = NO_NODES;
    for (const orphan of this.orphans) {
      if (orphan.since + this.graceUs < by) inTheWay = union(inTheWay, this.nodesOf(orphan, key, by));
    }
    if (inTheWay === NO_NODES || this.isQuorum(without(reach.up, inTheWay), reach.lists)) return false;
    return this.isQuorum(reach.up, reach.lists) && !this.isHeld(key, now);
  }

  /** The nodes that have a key of an orphan which has been there for long enough before `by`. */
  private nodesOf({ use, late }: Orphan, key: number, by: number): NodeSet {
    const { resources } = use.lock;
    const at = resources[0] === key ? 0 : resources.indexOf(key);
    if (at < 0) return NO_NODES;
    let nodes = use.holding;
    const part = use.parts === null ? undefined : use.parts[at];
    if (part !== undefined) nodes = part.taken ? NO_NODES : part.nodes;
    if (late === null) return nodes;
    for (const node of members(nodes)) {
      const since = late[placeOf(at, node)];
      if (since !== undefined && since + this.graceUs >= by) nodes = without(nodes, oneNode(node));
    }
    return nodes;
  }

  private isHeld(key: number, now: TrueTime): boolean {
    for (const lock of this.roster.holders) {
      if (!lock.resources.includes(key)) continue;
      if (this.holds(lock, now)) {
        this.nextAt = Math.min(this.nextAt, lock.endsAt);
        return true;
      }
      this.lapses(lock, now);
    }
    return false;
  }

  /** Since when a resource has been blocked that is blocked now, by the same keys. */
  private blockedSince(key: number, now: TrueTime, by: number): number {
    const since: number[] = [];
    for (const orphan of this.orphans) {
      if (orphan.since + this.graceUs >= by) continue;
      const at = orphan.use.lock.resources.indexOf(key);
      for (const node of members(this.nodesOf(orphan, key, by))) {
        since[node] = Math.min(since[node] ?? NEVER, orphan.late?.[placeOf(at, node)] ?? orphan.since);
      }
    }
    const free = this.freeAt[key] ?? 0;
    const times = [free, ...since.filter((it) => it !== undefined), ...this.reach.map(({ from }) => from)];
    let first: number = now;
    for (const time of times.filter((it) => it >= free && it < now).sort((a, b) => b - a)) {
      if (!this.wasBlocked(since, time)) break;
      first = time;
    }
    return first;
  }

  private wasBlocked(since: readonly number[], at: number): boolean {
    const reach = this.reach.findLast(({ from }) => from <= at);
    if (reach === undefined || !this.isQuorum(reach.up, reach.lists)) return false;
    let free = reach.up;
    for (const node of members(reach.up)) if ((since[node] ?? NEVER) <= at) free = without(free, oneNode(node));
    return !this.isQuorum(free, reach.lists);
  }
}
