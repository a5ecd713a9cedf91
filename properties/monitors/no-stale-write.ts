import type { ResourceGuard } from '../../scenarios/index.js';
import type { SimLock, TrueTime } from '../../sim/index.js';
import type { Violation } from '../violation.js';

/**
 * Effect: a write reaches the protected resource only while its writer believes to hold the lock. A resource that looks
 * before it takes a write may take a stale one: nobody newer has written, so that nothing is overwritten unseen.
 */
export class NoStaleWrite {
  private guard: ResourceGuard;
  private readonly report: (violation: Violation) => void;

  constructor(guard: ResourceGuard, report: (violation: Violation) => void) {
    this.guard = guard;
    this.report = report;
  }

  /** For another run. */
  reset(guard: ResourceGuard): void {
    this.guard = guard;
  }

  written(lock: SimLock, index: number, now: TrueTime): void {
    if (this.guard !== 'none' || lock.believes(now)) return;
    const { name } = lock.client;
    const resource = lock.plan.resources[0] ?? '?';
    this.report({
      property: 'no-stale-write',
      kind: 'effect',
      atUs: now,
      untilUs: now,
      resource,
      clients: [name],
      detail: `write ${index} of ${name} reached the resource after its claim to ${resource} had ended`,
    });
  }
}
