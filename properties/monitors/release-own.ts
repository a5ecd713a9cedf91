import type { GoneCause, LockRun, TrueTime } from '../../sim/index.js';
import { instant, type Report } from './instant.js';

/** State: a key is deleted or replaced by the commands of its owner only; else it expires, or a node forgets it. */
export class ReleaseOwn {
  private readonly report: Report;
  private readonly ownerOf: (token: number) => LockRun | null;

  constructor(report: Report, ownerOf: (token: number) => LockRun | null) {
    this.report = report;
    this.ownerOf = ownerOf;
  }

  keyGone(node: number, token: number, cause: GoneCause, by: number, now: TrueTime): void {
    if (by === token || (cause !== 'deleted' && cause !== 'overwritten')) return;
    const [owner, other] = [this.ownerOf(token), this.ownerOf(by)];
    const locks = [owner, other].filter((lock) => lock !== null);
    const detail = `a command of ${nameOf(other)} ${WORDS[cause]} the key of ${nameOf(owner)} on n${node}`;
    this.report(instant('release-own', 'state', locks, now, detail));
  }
}

const WORDS = { deleted: 'deletes', overwritten: 'replaces' } as const;

function nameOf(lock: LockRun | null): string {
  return lock?.client.name ?? '?';
}
