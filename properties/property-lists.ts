import type { PropertyId } from '../scenarios/scenario.js';

/**
 * What a fixed schedule is judged by when nobody asks for more. `validity` is not among them: that a majority is gone
 * is a danger, and a violation of mutual exclusion only if a rival can still use it before the claim ends.
 */
export const SAFETY: readonly PropertyId[] = ['mutual-exclusion', 'action-in-belief', 'fencing'];

/** What a search can look for: every property with a monitor. The reference policy keeps them all within its assumptions. */
export const SEARCHED: readonly PropertyId[] = [
  'mutual-exclusion',
  'validity',
  'acquisition',
  'extension',
  'continuity',
  'lost-lock',
  'token-unique',
  'one-lock-per-token',
  'bounded-key-lifetime',
  'release-own',
  'release-quorum',
  'cleanup',
  'action-in-belief',
  'fencing',
  'deadlock-free',
  'fault-tolerance',
  'progress',
];

/** Those of the monitored properties that are about liveness. */
export const LIVENESS: readonly PropertyId[] = [
  'release-quorum',
  'cleanup',
  'deadlock-free',
  'fault-tolerance',
  'progress',
];
