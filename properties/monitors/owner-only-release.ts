import type { KeyRemovalCause, SimLock, TrueTime } from '../../sim/index.js';
import { instant, type Report } from './instant.js';

/**
 * State: a key is deleted or replaced by the commands of its owner only; else it expires, or a node forgets it. Its owner
 * is the lock whose command set it, also where others have the same token.
 */
export class OwnerOnlyRelease {
  /** By node, key and token: who set it there last; only kept where several locks may have one token. */
  private readonly setters = new Map<string, SimLock>();
  private readonly report: Report;
  private readonly ownerOf: (token: number) => SimLock | null;

  constructor(report: Report, ownerOf: (token: number) => SimLock | null) {
    this.report = report;
    this.ownerOf = ownerOf;
  }

  /** For another run. */
  reset(): void {
    if (this.setters.size > 0) this.setters.clear();
  }

  /** A command of `sender` sets a key with a token that others may have, too. */
  keySet(node: number, key: number, token: number, sender: SimLock): void {
    this.setters.set(`${node} ${key} ${token}`, sender);
  }

  /** `sender` is who sent the command that did it, where a token does not tell; else `null`. */
  keyGone(gone: Gone, sender: SimLock | null, now: TrueTime): void {
    const { node, key, token, cause, by } = gone;
    if (cause !== 'deleted' && cause !== 'overwritten') return;
    if (by !== token) this.tell(node, this.ownerOf(token), this.ownerOf(by), cause, now);
    else if (sender !== null) {
      const owner = this.setters.get(`${node} ${key} ${token}`);
      if (owner !== undefined && owner !== sender) this.tell(node, owner, sender, cause, now);
    }
  }

  private tell(
    node: number,
    owner: SimLock | null,
    other: SimLock | null,
    cause: keyof typeof WORDS,
    now: TrueTime,
  ): void {
    const locks = [owner, other].filter((lock) => lock !== null);
    const detail = `a command of ${nameOf(other)} ${WORDS[cause]} the key of ${nameOf(owner)} on n${node}`;
    this.report(instant('owner-only-release', 'state', locks, now, detail));
  }
}

/** A key that a node no longer has: why, and the token of the command that did it. */
interface Gone {
  readonly node: number;
  readonly key: number;
  readonly token: number;
  readonly cause: KeyRemovalCause;
  readonly by: number;
}

const WORDS = { deleted: 'deletes', overwritten: 'replaces' } as const;

function nameOf(lock: SimLock | null): string {
  return lock?.client.name ?? '?';
}
