import type { Policy } from './policy.js';
import { type LocalTime, later } from './time.js';

/** The clock-drift allowance D for a TTL, µs: `driftPpm` of it plus `driftUs`, rounded up to whole ms if asked. */
export function driftAllowanceUs(policy: Policy, ttlUs: number): number {
  // Split so that the product stays exact for TTLs of centuries.
  const whole = Math.floor(ttlUs / 1_000_000) * policy.driftPpm;
  const rest = Math.ceil(((ttlUs % 1_000_000) * policy.driftPpm) / 1_000_000);
  const drift = whole + rest + policy.driftUs;
  return policy.driftWholeMs ? Math.ceil(drift / 1000) * 1000 : drift;
}

/**
 * The local instant at which a claim ends: T1 + TTL − D. It does not depend on how long the votes took; what they took
 * only decides whether anything is left of it.
 */
export function deadlineOf(policy: Policy, from: LocalTime, ttlUs: number): LocalTime {
  return later(from, ttlUs - driftAllowanceUs(policy, ttlUs));
}

/** Whether what is left of a claim (TTL − elapsed − D, µs) is enough to take the lock. */
export function isValid(policy: Policy, remainingUs: number): boolean {
  if (policy.validityCheck === 'none') return true;
  const enough = policy.validityCheck === 'non-negative' ? remainingUs >= 0 : remainingUs > 0;
  return enough && remainingUs >= policy.minValidityUs;
}
