import type { SimLock, TrueTime } from '../../sim/index.js';
import type { Violation } from '../violation.js';
import { empty, remove, removeAt } from './remove.js';

interface Overlap {
  readonly violation: Violation;
  readonly first: SimLock;
  readonly second: SimLock;
  readonly key: number;
}

/** When a claim ended, by its client's clock. */
type EndOf = (lock: SimLock) => number;

const endOfClaim: EndOf = ({ endsAt }) => endsAt;

/**
 * Belief: at no instant do two locks on one resource believe to be held. Intervals are half-open, so that a claim that
 * begins in the instant in which another ends does not overlap it. Work per event is proportional to the holders of
 * the resource, of which there is at most one in a correct run.
 */
export class MutualExclusion {
  private readonly holders: SimLock[][] = [];
  private readonly open: Overlap[] = [];
  /** So many may hold a resource at once: more than 1 of a semaphore. */
  admits = 1;
  private readonly report: (violation: Violation) => void;
  private readonly resourceOf: (key: number) => string;

  /** An overlap is reported as soon as it begins. If it ends in the same instant, it never was. */
  constructor(report: (violation: Violation) => void, resourceOf: (key: number) => string) {
    this.report = report;
    this.resourceOf = resourceOf;
  }

  /** For another run. */
  reset(): void {
    for (const holders of this.holders) if (holders !== undefined) empty(holders);
    empty(this.open);
    this.admits = 1;
  }

  /** A claim begins, or one that may have lapsed goes on. */
  claimed(lock: SimLock, now: TrueTime): void {
    for (const key of lock.resources) {
      let holders = this.holders[key];
      if (holders === undefined) {
        holders = [];
        this.holders[key] = holders;
      }
      if (!holders.includes(lock)) holders.push(lock);
      if (holders.length > this.admits) this.check(lock, holders, key, now);
    }
  }

  private check(lock: SimLock, holders: readonly SimLock[], key: number, now: TrueTime): void {
    if (!lock.believes(now)) return;
    const { admits } = this;
    if (admits > 1 && this.believing(key, now) <= admits) return;
    for (const other of holders) {
      if (other === lock || !other.believes(now) || this.isOpen(lock, other, key)) continue;
      const resource = this.resourceOf(key);
      const violation: Violation = {
        property: 'mutual-exclusion',
        kind: 'belief',
        atUs: now,
        untilUs: null,
        resource,
        clients: [other.client.name, lock.client.name],
        detail: `${whose(other, lock)} both believe to hold ${resource}${admits > 1 ? `, which ${admits} may hold at once, and more do` : ''}`,
      };
      this.open.push({ violation, first: other, second: lock, key });
      this.report(violation);
    }
  }

  private isOpen(a: SimLock, b: SimLock, key: number): boolean {
    return this.open.some(
      (it) => it.key === key && ((it.first === a && it.second === b) || (it.first === b && it.second === a)),
    );
  }

  /** A belief is over. */
  ended(lock: SimLock, now: TrueTime): void {
    for (const key of lock.resources) {
      const holders = this.holders[key];
      if (holders !== undefined) remove(holders, lock);
    }
    if (this.open.length === 0) return;
    this.closed((it) => concerns(it, lock), now);
    // Of those that several may hold, no more are left than may.
    if (this.admits > 1)
      this.closed(({ key }) => lock.resources.includes(key) && this.believing(key, now) <= this.admits, now);
  }

  private believing(key: number, now: TrueTime): number {
    return (this.holders[key] ?? []).filter((it) => it.believes(now)).length;
  }

  /** The end of a claim is about to change. If it has ended unnoticed, because its client is frozen, one can tell when. */
  lapse(lock: SimLock, now: TrueTime): void {
    if (this.open.length === 0) return;
    this.closed((it) => concerns(it, lock) && Math.max(it.violation.atUs, lock.endsAt) < now, now);
  }

  /** A claim that had not ended is extended to an end that is over. */
  cut(lock: SimLock, now: TrueTime): void {
    if (this.open.length === 0) return;
    this.closed(
      (it) => concerns(it, lock),
      now,
      (it) => (it === lock ? now : it.endsAt),
    );
  }

  /** A client's clock changed: a belief that its clock had ended may be back. */
  clockChanged(client: number, now: TrueTime): void {
    for (let key = 0; key < this.holders.length; key++) {
      const holders = this.holders[key];
      if (holders === undefined || holders.length < 2) continue;
      for (const lock of holders) if (lock.client.index === client) this.check(lock, holders, key, now);
    }
  }

  /** The run is over. */
  finished(now: TrueTime): void {
    if (this.open.length === 0) return;
    this.closed(() => true, now);
  }

  private closed(which: (overlap: Overlap) => boolean, now: TrueTime, endOf: EndOf = endOfClaim): void {
    for (let i = this.open.length - 1; i >= 0; i--) {
      const overlap = this.open[i];
      if (overlap === undefined || !which(overlap)) continue;
      const { violation, first, second } = overlap;
      // A client that was frozen when its claim ended hears of it later than it ended.
      const end = Math.min(now, endOf(first), endOf(second));
      violation.untilUs = Math.max(end, violation.atUs);
      removeAt(this.open, i);
    }
  }
}

function concerns({ first, second }: Overlap, lock: SimLock): boolean {
  return first === lock || second === lock;
}

function whose({ client: a }: SimLock, { client: b }: SimLock): string {
  return a === b ? `two acquisitions of ${a.name}` : `${a.name} and ${b.name}`;
}
