import type { SimLock, TrueTime } from '../../sim/index.js';
import { instant, type Report } from './instant.js';

/**
 * State: between a grant and its successful extension nobody else was granted the resource. The holder takes an
 * extension for one unbroken hold, even where nobody believed at the same time as it did.
 */
export class Continuity {
  /** By key: the lock that was granted or extended last. */
  private readonly last: (SimLock | undefined)[] = [];
  private readonly report: Report;

  constructor(report: Report) {
    this.report = report;
  }

  /** For another run. */
  reset(): void {
    for (let key = 0; key < this.last.length; key++) this.last[key] = undefined;
  }

  claimed(lock: SimLock): void {
    for (const key of lock.resources) this.grant(key, lock);
  }

  extended(lock: SimLock, now: TrueTime): void {
    let other: SimLock | undefined;
    for (const key of lock.resources) {
      const last = this.last[key];
      this.grant(key, lock);
      if (last !== lock) other ??= last;
    }
    if (other === undefined) return;
    const detail = `${lock.client.name} extends its lock, but ${other.client.name} was granted it in between`;
    this.report(instant('continuity', 'state', [other, lock], now, detail));
  }

  private grant(key: number, lock: SimLock): void {
    while (this.last.length <= key) this.last.push(undefined);
    this.last[key] = lock;
  }
}
