import type { PropertyId } from '../../scenarios/index.js';

/** Kinds of violations, with the names of the matrix. If a run has several, the first of this list is shown first. */
export const VIOLATION_KINDS = [
  'belief',
  'state',
  'effect',
  'acquisition',
  'lifetime',
  'leak',
  'continuity',
  'hang',
  'signal',
  'margin',
  'token',
  'rejection',
  'unavailable',
] as const;

/** Kind of a violation: one of {@link VIOLATION_KINDS}. */
export type ViolationKind = (typeof VIOLATION_KINDS)[number];

/** The property that each kind is told under. Where only that is known, the first kind with it is meant. */
export const PROPERTY_OF: Readonly<Record<ViolationKind, PropertyId>> = {
  belief: 'mutual-exclusion',
  state: 'quorum-backed',
  effect: 'no-stale-write',
  acquisition: 'acquisition',
  lifetime: 'bounded-key-lifetime',
  leak: 'cleanup',
  continuity: 'continuity',
  hang: 'deadlock-free',
  signal: 'loss-notified',
  margin: 'acquisition',
  token: 'one-lock-per-token',
  rejection: 'fault-tolerance',
  unavailable: 'deadlock-free',
};

/** Which kind of failure a violation is: it says so itself, or its property does. */
export function kindOf({ property, failure }: { property: PropertyId; failure?: ViolationKind }): ViolationKind {
  return failure ?? VIOLATION_KINDS.find((kind) => PROPERTY_OF[kind] === property) ?? 'state';
}
