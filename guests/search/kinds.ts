import type { Violation } from '../../properties/index.js';
import type { PropertyId } from '../../scenarios/index.js';

/** All that can be wrong with a library, in the words of the matrix; of several in one run, the first is shown first. */
export const VIOLATION_KINDS: readonly [
  'belief',
  'state',
  'effect',
  'acquisition',
  'leak',
  'continuity',
  'hang',
  'signal',
] = ['belief', 'state', 'effect', 'acquisition', 'leak', 'continuity', 'hang', 'signal'];

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

/** Which kind of failure the violation of a property is. */
export function kindOf({ property }: Pick<Violation, 'property'>): ViolationKind {
  return KINDS[property] ?? 'state';
}
