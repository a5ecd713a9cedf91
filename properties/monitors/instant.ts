import type { PropertyId, PropertyKind } from '../../scenarios/index.js';
import type { SimLock, TrueTime } from '../../sim/index.js';
import type { Violation } from '../violation.js';

/** Takes in a violation. */
export type Report = (violation: Violation) => void;

/** The resource that a lock is told of by. */
function resourceOf(lock: SimLock): string {
  return lock.plan.resources[0] ?? '?';
}

/** A violation that happens in one instant, and has no end to wait for. */
export function instant(
  property: PropertyId,
  kind: PropertyKind,
  locks: readonly SimLock[],
  now: TrueTime,
  detail: string,
): Violation {
  const [first] = locks;
  return {
    property,
    kind,
    atUs: now,
    untilUs: now,
    resource: first === undefined ? '?' : resourceOf(first),
    clients: locks.map((lock) => lock.client.name),
    detail,
  };
}
