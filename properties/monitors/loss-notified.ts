import { size } from '../../core/index.js';
import { type SimLock, type TrueTime, trueTime } from '../../sim/index.js';
import type { AttemptRecord } from './attempt-registry.js';
import { instant, type Report } from './instant.js';
import { empty, removeAt } from './remove.js';

/** How the detail of a violation ends that is about what a client is told, and not about keys. */
export const NOT_TOLD = 'and its owner is not told';

/**
 * State: a lock whose majority was lost during the claim is never taken for extended; and once a claim has ended by its
 * client's clock, the owner is told so before anything else happens.
 */
export class LossNotified {
  private readonly lost: AttemptRecord[] = [];
  private readonly lostAt: TrueTime[] = [];
  private readonly report: Report;

  constructor(report: Report) {
    this.report = report;
  }

  /** For another run. */
  reset(): void {
    empty(this.lost);
    empty(this.lostAt);
  }

  /** A node no longer has a key of this attempt. */
  keyGone(use: AttemptRecord, token: number, now: TrueTime): void {
    const { lock } = use;
    if (!lock.believing || lock.token !== token || size(use.whole) >= lock.list.majority) return;
    if (!lock.believes(now) || this.lost.includes(use)) return;
    this.lost.push(use);
    this.lostAt.push(now);
  }

  extended(lock: SimLock, use: AttemptRecord, now: TrueTime): void {
    const at = this.lost.indexOf(use);
    if (at < 0) return;
    const detail = `${lock.client.name} extends a lock whose majority was lost at ${this.lostAt[at]} us, and is not told`;
    removeAt(this.lost, at);
    removeAt(this.lostAt, at);
    this.report(instant('loss-notified', 'state', [lock], now, detail));
  }

  /** Somebody gives a lock back, or the run ends, and nobody was told that the claim is over. */
  check(lock: SimLock, now: TrueTime): void {
    const { client } = lock;
    if (client.down || lock.believes(now)) return;
    // Who is frozen cannot be told.
    const end = trueTime(Math.max(lock.endsAt, client.pausedUntil));
    if (end >= now) return;
    const detail = `the claim of ${client.name} is over, ${NOT_TOLD}`;
    this.report(instant('loss-notified', 'state', [lock], end, detail));
  }
}
