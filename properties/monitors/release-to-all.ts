import { members, NO_NODES, without } from '../../core/index.js';
import { nodeName, type TrueTime } from '../../sim/index.js';
import type { AttemptRecord } from './attempt-registry.js';
import { instant, type Report } from './instant.js';

/**
 * Liveness: a release goes to every node that was ever asked for this lock. One that has not answered may have the key
 * all the same.
 */
export class ReleaseToAll {
  private readonly report: Report;

  constructor(report: Report) {
    this.report = report;
  }

  /** The release of a lock has just been sent. */
  released(use: AttemptRecord, now: TrueTime): void {
    const left = without(use.asked, use.released);
    if (left === NO_NODES) return;
    const nodes = members(left).map(nodeName).join(', ');
    const detail = `${use.lock.client.name} gives its lock back, but not on ${nodes}, which it had asked for it`;
    this.report(instant('release-to-all', 'liveness', [use.lock], now, detail));
  }
}
