import type { SimLock, TrueTime } from '../../sim/index.js';
import type { AttemptRecord } from './attempt-registry.js';
import { instant, type Report } from './instant.js';

/**
 * State: no two attempts use the same token, or a late command of one can be taken for the other's; and a token belongs to
 * one lock, or the commands of one can be taken for another's at any time.
 */
export class UniqueToken {
  private readonly report: Report;

  constructor(report: Report) {
    this.report = report;
  }

  /** An attempt begins with a token; `before` is the attempt that used it already. */
  begun(lock: SimLock, attempt: number, before: AttemptRecord, now: TrueTime): void {
    const { name } = lock.client;
    const first = before.lock === lock ? `attempt ${before.attempt + 1}` : `a lock of ${before.lock.client.name}`;
    const detail = `attempt ${attempt + 1} of ${name} has the token of ${first}`;
    this.report(instant('unique-token', 'state', [before.lock, lock], now, detail));
    if (before.lock !== lock) this.report(instant('one-lock-per-token', 'state', [before.lock, lock], now, detail));
  }
}
