import { type Command, compareFencingTokens, type FencingToken } from '../../core/index.js';
import type { Policy } from '../../deviations/index.js';
import { fencingTokenOf } from '../../deviations/index.js';
import type { Setup, SimLock, TrueTime } from '../../sim/index.js';
import { instant, type Report } from './instant.js';
import { empty } from './remove.js';

interface Issued {
  readonly lock: SimLock;
  readonly token: FencingToken;
  /** Its place among all that were issued. */
  readonly place: number;
}

/**
 * State: fencing tokens rise. A client that begins to ask for one when another was granted already gets a higher counter, and no
 * two holders of a resource have the same token, however they overlap.
 *
 * Effect: a resource that looks at tokens takes none that is lower than one it has seen, and refuses no other.
 *
 * Liveness: nobody is told that too few nodes know their counter, after which nobody gets a token.
 */
export class Fencing {
  private policy: Policy;
  private guarded: boolean;
  private readonly report: Report;
  private issued = 0;
  /** By resource. */
  private readonly byKey: Issued[][] = [];
  private readonly highest: (FencingToken | undefined)[] = [];
  /** How many tokens there were when a lock, in its attempt, began to ask for its own. */
  private asked: Map<SimLock, { readonly attempt: number; readonly issued: number }> | null = null;

  constructor({ policy, resource }: Setup, report: Report) {
    this.policy = policy;
    this.guarded = resource === 'fencing' || resource === 'fencing-strict';
    this.report = report;
  }

  /** For another run. */
  reset({ policy, resource }: Setup): void {
    this.policy = policy;
    this.guarded = resource === 'fencing' || resource === 'fencing-strict';
    this.issued = 0;
    empty(this.byKey);
    empty(this.highest);
    this.asked = null;
  }

  private tokenOf({ state }: SimLock): FencingToken | null {
    return fencingTokenOf(this.policy, state.counters.counter, state.attempt.token);
  }

  /** A client asks about counters. */
  sent(lock: SimLock, { operation, attempt }: Command): void {
    if (operation !== 'read-counter' && operation !== 'raise-counter') return;
    this.asked ??= new Map();
    if (this.asked.get(lock)?.attempt !== attempt) this.asked.set(lock, { attempt, issued: this.issued });
  }

  claimed(lock: SimLock, now: TrueTime): void {
    const token = this.tokenOf(lock);
    if (token === null) return;
    const asked = this.asked?.get(lock);
    const before = asked?.attempt === lock.state.attempt.number ? asked.issued : this.issued;
    const wrong = this.whatIsWrong(lock, token, before);
    if (wrong !== null) this.report(instant('fencing', 'state', wrong.locks, now, wrong.detail));
    const place = this.issued++;
    for (const key of lock.resources) {
      const list = this.byKey[key];
      if (list === undefined) this.byKey[key] = [{ lock, token, place }];
      else list.push({ lock, token, place });
    }
  }

  /** An acquisition failed for good. */
  failed(lock: SimLock, reason: string, now: TrueTime): void {
    if (reason !== 'counters-lost') return;
    const detail = `${lock.client.name} is told that too few nodes know their counter: nobody gets a fencing token any more`;
    this.report(instant('fencing', 'liveness', [lock], now, detail));
  }

  private whatIsWrong(
    lock: SimLock,
    token: FencingToken,
    before: number,
  ): { readonly locks: SimLock[]; readonly detail: string } | null {
    for (const key of lock.resources) {
      for (const other of this.byKey[key] ?? []) {
        const same = compareFencingTokens(token, other.token) === 0;
        if (!same && (other.place >= before || token.counter > other.token.counter)) continue;
        const names = [other.lock.client.name, lock.client.name];
        const detail = same
          ? `${names[1]} gets the fencing token that ${names[0]} has got, ${token.counter}`
          : `${names[1]} gets the fencing token ${token.counter}, but ${names[0]} got ${other.token.counter} before`;
        return { locks: [other.lock, lock], detail };
      }
    }
    return null;
  }

  written(lock: SimLock, accepted: boolean, now: TrueTime): void {
    if (!this.guarded) return;
    const token = this.tokenOf(lock);
    if (token === null) return;
    const seen = lock.resources.flatMap((key) => this.highest[key] ?? []);
    const tooLow = seen.some((it) => compareFencingTokens(token, it) < 0);
    if (accepted === tooLow) {
      const detail = accepted
        ? `the resource takes a write of ${lock.client.name} with a lower fencing token than it has seen`
        : `the resource refuses a write of ${lock.client.name}, who has the highest fencing token that it has seen`;
      this.report(instant('fencing', 'effect', [lock], now, detail));
    }
    if (!tooLow) for (const key of lock.resources) this.highest[key] = token;
  }
}
