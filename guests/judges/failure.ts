import type { Violation } from '../../properties/index.js';
import { instant } from '../../properties/monitors/instant.js';
import type { PropertyId, PropertyKind } from '../../scenarios/index.js';
import type { SimLock, TrueTime } from '../../sim/index.js';
import type { ViolationKind } from '../search/kinds.js';

/** A violation by a client, with the kind of failure that it is where its property does not tell. */
export interface ClientViolation extends Violation {
  readonly failure?: ViolationKind;
}

/** The property that each kind of failure is told under, and whether it is about the state or about what is waited for. */
const TOLD_AS: Readonly<
  Record<
    'foreign' | 'lifetime' | 'leak' | 'rejection' | 'unavailable' | 'margin' | 'token',
    readonly [PropertyId, PropertyKind]
  >
> = {
  foreign: ['release-own', 'state'],
  lifetime: ['bounded-key-lifetime', 'state'],
  leak: ['cleanup', 'liveness'],
  rejection: ['fault-tolerance', 'liveness'],
  unavailable: ['deadlock-free', 'liveness'],
  margin: ['acquisition', 'state'],
  token: ['one-lock-per-token', 'state'],
};

/** Makes a failure of one instant. */
export function failure(
  kind: keyof typeof TOLD_AS,
  locks: readonly SimLock[],
  now: TrueTime,
  detail: string,
): ClientViolation {
  const [property, about] = TOLD_AS[kind];
  return { ...instant(property, about, locks, now, detail), failure: kind === 'foreign' ? 'state' : kind };
}
