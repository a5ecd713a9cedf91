import { has, members, NO_NODES, nodeName, without } from '../../core/index.js';
import type { LockRun, TrueTime } from '../../sim/index.js';
import { instant, type Report } from './instant.js';
import type { Use } from './ledger.js';

/**
 * Liveness: once an attempt has failed or its lock was given back, no key of it is on a node that was never sent a
 * release. What the network does to a release is nobody's fault; that none was sent keeps everybody else out until the
 * TTL is over.
 */
export class Cleanup {
  private readonly told = new Set<Use>();
  private readonly report: Report;

  constructor(report: Report) {
    this.report = report;
  }

  /** The attempt is over, and what is sent on that account has been sent. */
  ended(use: Use, now: TrueTime): void {
    if (use.over) return;
    use.over = true;
    const left = without(use.holding, use.released);
    if (left !== NO_NODES) this.tell(use, members(left).map(nodeName).join(', '), now);
  }

  /** A node sets a key late. */
  keySet(use: Use, node: number, now: TrueTime): void {
    if (use.over && !has(use.released, node)) this.tell(use, nodeName(node), now);
  }

  private tell(use: Use, nodes: string, now: TrueTime): void {
    if (this.told.has(use)) return;
    this.told.add(use);
    const detail = `${nameOf(use.lock)} leaves its key on ${nodes}, where it never sent a release`;
    this.report(instant('cleanup', 'liveness', [use.lock], now, detail));
  }
}

function nameOf(lock: LockRun): string {
  return lock.client.name;
}
