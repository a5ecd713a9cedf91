import type { SimLock, TrueTime } from '../../sim/index.js';
import type { Violation } from '../violation.js';
import type { NearMissMeter } from './near-miss-meter.js';
import { empty, removeAt } from './remove.js';

/**
 * State: as long as a client believes, a majority of the nodes hold its token, so that nobody else can gather one. A
 * node that is down keeps its vote until it is back: it can give it to nobody else. This fails before mutual exclusion
 * does, which needs a rival who makes use of it.
 */
export class QuorumBacked {
  /** By key and token: how many nodes hold it. */
  private readonly counts: number[][] = [];
  private readonly open: { readonly lock: SimLock; readonly key: number; readonly violation: Violation }[] = [];
  private readonly report: (violation: Violation) => void;
  private readonly resourceOf: (key: number) => string;
  private readonly closeness: NearMissMeter;

  /** A violation is reported as soon as it begins. If it, or the belief, ends in the same instant, it never was. */
  constructor(report: (violation: Violation) => void, resourceOf: (key: number) => string, closeness: NearMissMeter) {
    this.closeness = closeness;
    this.report = report;
    this.resourceOf = resourceOf;
  }

  /** For another run. */
  reset(): void {
    for (const counts of this.counts) if (counts !== undefined) for (let i = 0; i < counts.length; i++) counts[i] = 0;
    empty(this.open);
  }

  keySet(key: number, token: number, now: TrueTime): void {
    let counts = this.counts[key];
    if (counts === undefined) {
      counts = [];
      this.counts[key] = counts;
    }
    // Dense, because tokens are: a list with holes is slower.
    while (counts.length <= token) counts.push(0);
    counts[token] = (counts[token] ?? 0) + 1;
    if (this.open.length > 0) this.restored(key, token, now);
  }

  /** What is there again in the instant in which it went was not missing at its end. */
  private restored(key: number, token: number, now: TrueTime): void {
    for (const { lock, key: missing, violation } of [...this.open]) {
      if (lock.token !== token || missing !== key || violation.atUs !== now) continue;
      if ((this.counts[key]?.[token] ?? 0) < lock.list.majority) continue;
      this.ended(lock, now);
      if (lock.believing) this.check(lock, now);
    }
  }

  /** A node lost a key; `lock` is the one that uses the token. */
  keyGone(key: number, token: number, lock: SimLock | null, now: TrueTime): void {
    const counts = this.counts[key];
    if (counts === undefined) return;
    const left = (counts[token] ?? 0) - 1;
    counts[token] = left;
    if (lock !== null && lock.token === token) this.voteLost(lock, key, left, now);
  }

  /** The same for a further lock that uses the token; {@link keyGone} came before. */
  otherVoteLost(lock: SimLock, key: number, now: TrueTime): void {
    this.voteLost(lock, key, this.counts[key]?.[lock.token] ?? 0, now);
  }

  private voteLost(lock: SimLock, key: number, left: number, now: TrueTime): void {
    // With the same token it may have another resource.
    if (lock.keys[0] !== key && !lock.keys.includes(key)) return;
    const spare = left - lock.list.majority;
    this.closeness.voteLost(lock, spare, now);
    if (spare < 0 && lock.believing) this.check(lock, now);
  }

  /** Looks whether the majority behind a belief is there: at a claim, an extension, a change of clock. */
  check(lock: SimLock, now: TrueTime): void {
    if (this.isOpen(lock) || !lock.believes(now)) return;
    const { majority } = lock.list;
    const { keys } = lock;
    for (let index = 0; index < keys.length; index++) {
      const key = keys[index] ?? 0;
      const holding = this.counts[key]?.[lock.token] ?? 0;
      if (holding >= majority) continue;
      const { name } = lock.client;
      const resource = this.resourceOf(lock.resources[index] ?? key);
      const violation: Violation = {
        property: 'quorum-backed',
        kind: 'state',
        atUs: now,
        untilUs: null,
        resource,
        clients: [name],
        detail: `${name} believes to hold ${resource}, but ${holders(holding)} its token (majority ${majority})`,
      };
      this.open.push({ lock, key, violation });
      this.report(violation);
      return;
    }
  }

  private isOpen(lock: SimLock): boolean {
    return this.open.length > 0 && this.open.some((it) => it.lock === lock);
  }

  /** The end of a claim is about to change. If it has ended unnoticed, because its client is frozen, one can tell when. */
  lapse(lock: SimLock, now: TrueTime): void {
    if (this.open.length === 0) return;
    const violation = this.open.find((it) => it.lock === lock)?.violation;
    if (violation !== undefined && Math.max(violation.atUs, lock.endsAt) < now) this.ended(lock, now);
  }

  /** A belief is over, which ran to `endsAt` by its client's clock. */
  ended(lock: SimLock, now: TrueTime, endsAt: TrueTime = lock.endsAt): void {
    if (this.open.length === 0) return;
    const at = this.open.findIndex((it) => it.lock === lock);
    const violation = this.open[at]?.violation;
    if (violation === undefined) return;
    violation.untilUs = Math.max(violation.atUs, Math.min(now, endsAt));
    removeAt(this.open, at);
  }

  /** The run is over. */
  finished(now: TrueTime): void {
    for (const { lock } of [...this.open]) this.ended(lock, now);
  }
}

function holders(count: number): string {
  if (count === 0) return 'no node has';
  return count === 1 ? 'only 1 node has' : `only ${count} nodes have`;
}
