import { compareFencingTokens, type FencingToken } from '../core/index.js';
import type { Policy } from '../deviations/index.js';
import { fencingTokenOf } from '../deviations/index.js';
import type { ResourceGuard } from '../scenarios/index.js';
import type { SimLock } from './sim-lock.js';

/** What the locks protect: takes writes, or refuses them as its guard says. Each resource has a guard of its own. */
export class ProtectedResource {
  private guard: ResourceGuard;
  private policy: Policy;
  /** By resource: the highest fencing token seen, or the lock whose token was left for compare-and-set. */
  private readonly highest: (FencingToken | undefined)[] = [];
  private readonly marked: (SimLock | undefined)[] = [];

  constructor(guard: ResourceGuard, policy: Policy) {
    this.guard = guard;
    this.policy = policy;
  }

  /** As a new one. */
  reset(guard: ResourceGuard, policy: Policy): void {
    this.guard = guard;
    this.policy = policy;
    // To set a length is a call out of the engine's own code.
    if (this.highest.length > 0) this.highest.length = 0;
    if (this.marked.length > 0) this.marked.length = 0;
  }

  /** Takes write number `index` of a lock, or refuses it. */
  take(lock: SimLock, index: number): boolean {
    switch (this.guard) {
      case 'none':
        return true;
      case 'cas':
        return this.compareAndSet(lock, index);
      default:
        return this.compareTokens(lock);
    }
  }

  private compareTokens(lock: SimLock): boolean {
    const token = fencingTokenOf(this.policy, lock.state.counters.counter, lock.state.attempt.token);
    if (token === null) return true;
    const least = this.guard === 'fencing-strict' ? 1 : 0;
    for (const key of lock.resources) {
      const highest = this.highest[key];
      if (highest !== undefined && compareFencingTokens(token, highest) < least) return false;
    }
    for (const key of lock.resources) this.highest[key] = token;
    return true;
  }

  /** The first write leaves the token; those behind it are done only where it still is. */
  private compareAndSet(lock: SimLock, index: number): boolean {
    if (index === 0) for (const key of lock.resources) this.marked[key] = lock;
    return lock.resources.every((key) => this.marked[key] === lock);
  }
}
