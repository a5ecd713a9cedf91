import { has, NO_NODES, type NodeSet, size } from '../../../core/index.js';
import { type SimLock, type TrueTime, trueTime, type WatchedWorld } from '../../../sim/index.js';
import type { AttemptRecord, AttemptRegistry } from '../attempt-registry.js';
import type { HolderRegistry } from '../holder-registry.js';
import { instant, type Report } from '../instant.js';
import { empty } from '../remove.js';
import type { Durations } from './durations.js';
import type { StablePeriod } from './stable-period.js';

/**
 * Liveness: a client that keeps trying, with nobody else who wants or holds the lock, nothing disturbed, and a majority
 * of the nodes usable and free of keys that are there for a reason, has the lock after the time-out of a release that may be
 * on its way, the attempt that was under way, a pause, and one more attempt. With every node usable that is `deadlock-free`; with up to a minority of them dead,
 * refusing, hung or cut off all the while it is `fault-tolerance`. A key of somebody else is there for a reason until
 * its TTL is over; a key of the client's own only if it was sent a release, which must have been lost.
 */
export class UncontendedWait {
  /** How long the client may take, µs of its own clock. */
  private patienceUs = 0;
  /** When somebody came or went last, true time, µs; or when keys that are there for a reason should be gone. */
  private from = 0;
  private readonly told: SimLock[] = [];
  /** What a release may take until it is there, µs. */
  private releaseUs: number;
  private readonly durations: Durations;
  private readonly calm: StablePeriod;
  private readonly ledger: AttemptRegistry;
  private readonly report: Report;

  constructor(durations: Durations, calm: StablePeriod, ledger: AttemptRegistry, report: Report) {
    this.releaseUs = durations.nodeTimeoutUs ?? 0;
    this.durations = durations;
    this.calm = calm;
    this.ledger = ledger;
    this.report = report;
  }

  /** For another run; its durations come first. */
  reset(): void {
    this.patienceUs = 0;
    this.from = 0;
    empty(this.told);
    this.releaseUs = this.durations.nodeTimeoutUs ?? 0;
  }

  /** Somebody begins to ask for a lock. */
  asked({ plan, list }: SimLock): void {
    const { durations } = this;
    const attempt = durations.attemptUs(list.places, plan.ttlMs);
    // Releases on their way, the attempt under way, the pause, the attempt that must succeed.
    const freed = durations.cleanUpUs(list.places, plan.ttlMs) + (durations.nodeTimeoutUs ?? attempt);
    const patience = freed + 2 * attempt + durations.longestPauseUs;
    this.patienceUs = Math.max(this.patienceUs, patience);
  }

  /** Somebody asks for a lock, gets it, gives it back or gives up; or a key goes that was in the way. */
  changed(now: number): void {
    this.from = now;
  }

  /** When the waiting client should have the lock at the latest, true time, µs. */
  get dueAt(): number {
    return this.calm.after(Math.max(this.from, this.calm.since), this.patienceUs);
  }

  /** Looks at the locks that are being asked for at `due`. */
  check(due: number, roster: HolderRegistry, world: WatchedWorld): void {
    let from = due;
    for (const lock of roster.waiters) {
      if (this.told.includes(lock) || roster.hasRivals(lock)) continue;
      // Frozen: the watch begins again when it is not.
      if (lock.client.pausedUntil > due) continue;
      const usable = this.calm.usable(lock, world, due);
      if (size(usable) < lock.list.majority) continue;
      const freeAt = this.freeAt([lock], usable, due);
      if (freeAt >= due) {
        from = Math.max(from, freeAt);
        continue;
      }
      this.told.push(lock);
      this.tell(lock, usable, trueTime(due));
    }
    this.from = from;
  }

  private tell(lock: SimLock, usable: NodeSet, at: TrueTime): void {
    const { distinct } = lock.list;
    const out = distinct - size(usable);
    const property = out === 0 ? 'deadlock-free' : 'fault-tolerance';
    const nodes = out === 0 ? 'every node is in order' : `${size(usable)} of ${distinct} nodes are in order`;
    const detail = `${lock.client.name} still waits for its lock, alone and undisturbed since ${Math.max(this.from, this.calm.since)} us, while ${nodes}`;
    this.report(instant(property, 'liveness', [lock], at, detail));
  }

  /** When enough of the usable nodes should be without a key that is there for a reason; 0 if they are already. */
  freeAt(locks: readonly SimLock[], usable: NodeSet, at: number): number {
    const [lock] = locks;
    if (lock === undefined) return 0;
    const untils: number[] = [];
    for (const use of this.ledger.all) {
      if (use === undefined || use.holding === NO_NODES || !sharesKey(use.lock, lock)) continue;
      for (const node of lock.list.nodes) {
        if (!has(use.holding, node) || !has(usable, node)) continue;
        untils[node] = Math.max(untils[node] ?? 0, this.reasonEnds(locks, use, node, at));
      }
    }
    const times = untils.filter((until) => until > 0);
    const toGo = lock.list.majority - (size(usable) - times.length);
    if (toGo <= 0) return 0;
    times.sort((a, b) => a - b);
    return times[toGo - 1] ?? 0;
  }

  /** Until when a key on a node is there for a reason that these clients have to put up with, true time, µs; or 0. */
  private reasonEnds(locks: readonly SimLock[], use: AttemptRecord, node: number, at: number): number {
    if (locks.includes(use.lock)) {
      // Under way, never released, or just being released.
      const lost = use.over && has(use.released, node) && (use.orphanedAt ?? at) + this.releaseUs <= at;
      if (!lost) return 0;
    }
    const { slowness, setBackUs } = this.calm;
    const { ttlMs } = use.lock.plan;
    // What slow clocks, and those that were set back, add to the life of a key.
    const extra = (Math.max(ttlMs, use.roundTtlMs) * 1000 + setBackUs) / slowness - ttlMs * 1000;
    return use.keysUntil + Math.ceil(Math.max(0, extra));
  }
}

function sharesKey(a: SimLock, b: SimLock): boolean {
  return a.keys.some((key) => b.keys.includes(key));
}
