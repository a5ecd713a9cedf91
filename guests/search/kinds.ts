import type { PropertyId } from '../../scenarios/index.js';

/** All that can be wrong with a library, in the words of the matrix; of several in one run, the first is shown first. */
export const VIOLATION_KINDS: readonly [
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
] = [
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
];

/** What can be wrong with a library: one of {@link VIOLATION_KINDS}. */
export type ViolationKind = (typeof VIOLATION_KINDS)[number];

const KINDS: Partial<Record<PropertyId, ViolationKind>> = {
  'mutual-exclusion': 'belief',
  validity: 'state',
  'action-in-belief': 'effect',
  acquisition: 'acquisition',
  cleanup: 'leak',
  continuity: 'continuity',
  'deadlock-free': 'hang',
  'lost-lock': 'signal',
};

/** Which kind of failure a violation is: it says so itself, or its property does. */
export function kindOf({ property, failure }: { property: PropertyId; failure?: ViolationKind }): ViolationKind {
  return failure ?? KINDS[property] ?? 'state';
}
