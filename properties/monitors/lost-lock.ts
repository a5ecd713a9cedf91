import { size } from '../../core/index.js';
import type { LockRun, TrueTime } from '../../sim/index.js';
import { believes } from './belief.js';
import { instant, type Report } from './instant.js';
import type { Use } from './ledger.js';

/** State: a lock whose majority was lost during the claim is never taken for extended; its owner is told instead. */
export class LostLock {
  private readonly lost = new Map<Use, TrueTime>();
  private readonly report: Report;

  constructor(report: Report) {
    this.report = report;
  }

  /** A node no longer has a key of this attempt. */
  keyGone(use: Use, token: number, now: TrueTime): void {
    const { lock } = use;
    if (!lock.believing || lock.token !== token || size(use.whole) >= lock.list.majority) return;
    if (believes(lock, now) && !this.lost.has(use)) this.lost.set(use, now);
  }

  extended(lock: LockRun, use: Use, now: TrueTime): void {
    if (this.lost.size === 0) return;
    const since = this.lost.get(use);
    if (since === undefined) return;
    this.lost.delete(use);
    const detail = `${lock.client.name} extends a lock whose majority was lost at ${since} us, and is not told`;
    this.report(instant('lost-lock', 'state', [lock], now, detail));
  }
}
