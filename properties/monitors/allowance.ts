import type { Drift } from '../../core/index.js';

/**
 * The least that a claim has to give up for drift, µs: what its policy states, computed again, and never less than
 * nothing, because no key lives longer than its TTL. Rounded down, so that no rounding is taken for a fault.
 */
export function leastDriftUs({ driftPpm, driftUs }: Drift, ttlMs: number): number {
  return Math.max(0, Math.floor((ttlMs * driftPpm) / 1000 + driftUs));
}
