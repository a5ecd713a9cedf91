import { type Policy, statedDrift } from '../../deviations/index.js';

/**
 * The least that a claim has to give up for drift, µs: what the policy says, computed again, and never less than
 * nothing, because no key lives longer than its TTL. Rounded down, so that no rounding is taken for a fault.
 */
export function leastDriftUs(policy: Policy, ttlMs: number): number {
  const { driftPpm, driftUs } = statedDrift(policy);
  return Math.max(0, Math.floor((ttlMs * driftPpm) / 1000 + driftUs));
}
