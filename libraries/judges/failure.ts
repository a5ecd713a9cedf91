import type { Violation } from '../../properties/index.js';
import { instant } from '../../properties/monitors/instant.js';
import type { SimLock, TrueTime } from '../../sim/index.js';
import { PROPERTY_OF, type ViolationKind } from '../search/kinds.js';

/**
 * What a simple lock on one node does not do, and redis.io does not ask of it: `late-answer`, it hands a lock over though its TTL has
 * passed, and says nothing of its time; `key-stays`, the key of a failed acquisition is left to its TTL.
 */
export type Limit = 'late-answer' | 'key-stays';

/** A violation by a client, with the kind of failure that it is where its property does not tell. */
export interface ClientViolation extends Violation {
  readonly failure?: ViolationKind;
  /** It is a limit of simple locks on one node. */
  readonly limit?: Limit;
}

/** Kinds that are about what is waited for. */
const LIVENESS: readonly ViolationKind[] = ['leak', 'hang', 'rejection', 'unavailable'];

/** Makes a failure of one instant. */
export function failure(
  kind: ViolationKind,
  locks: readonly SimLock[],
  now: TrueTime,
  detail: string,
): ClientViolation {
  const about = LIVENESS.includes(kind) ? 'liveness' : 'state';
  return { ...instant(PROPERTY_OF[kind], about, locks, now, detail), failure: kind };
}

/** A client is given a lock that is over: `leftUs` is what is left of it, 0 or less. */
export function handedOverLate(lock: SimLock, leftUs: number, now: TrueTime, isLimit: boolean): ClientViolation {
  const since = leftUs === 0 ? 'now' : Number.isFinite(leftUs) ? `${-leftUs / 1000} ms ago` : 'already';
  const found = failure('acquisition', [lock], now, `${lock.client.name} is given a lock that ended ${since}`);
  return isLimit ? { ...found, limit: 'late-answer' } : found;
}
