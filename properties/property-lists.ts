import type { PropertyId } from '../scenarios/scenario.js';

/**
 * What a fixed schedule is judged by when nobody asks for more. `quorum-backed` is not among them: that a majority is gone
 * is a danger, and a violation of mutual exclusion only if a rival can still use it before the claim ends.
 */
export const SAFETY: readonly PropertyId[] = ['mutual-exclusion', 'no-stale-write', 'fencing'];

/** What a search can look for: every property with a monitor. The reference policy keeps them all within its assumptions. */
export const SEARCHED: readonly PropertyId[] = [
  'mutual-exclusion',
  'quorum-backed',
  'acquisition',
  'extension',
  'continuity',
  'loss-notified',
  'unique-token',
  'one-lock-per-token',
  'bounded-key-lifetime',
  'owner-only-release',
  'release-to-all',
  'cleanup',
  'no-stale-write',
  'fencing',
  'deadlock-free',
  'fault-tolerance',
  'progress',
];

/** Those of the monitored properties that are about liveness. */
export const LIVENESS: readonly PropertyId[] = [
  'release-to-all',
  'cleanup',
  'deadlock-free',
  'fault-tolerance',
  'progress',
];
