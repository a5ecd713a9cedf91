import type { Violation } from '../../properties/index.js';
import { instant } from '../../properties/monitors/instant.js';
import type { SimLock, TrueTime } from '../../sim/index.js';
import { PROPERTY_OF, type ViolationKind } from '../search/kinds.js';

/** A violation by a client, with the kind of failure that it is where its property does not tell. */
export interface ClientViolation extends Violation {
  readonly failure?: ViolationKind;
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
