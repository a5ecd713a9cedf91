import type { Policy } from './policy.js';
import { LONGEST_US, type LocalTime, later, localTime } from './time.js';

/** The clock-drift allowance D for a TTL, µs: `driftPpm` of it plus `driftUs`, rounded up to whole ms if asked. */
export function driftAllowanceUs(policy: Policy, ttlUs: number): number {
  // Split so that the product stays exact for TTLs of centuries.
  const whole = Math.floor(ttlUs / 1_000_000) * policy.driftPpm;
  const rest = Math.ceil(((ttlUs % 1_000_000) * policy.driftPpm) / 1_000_000);
  const drift = whole + rest + policy.driftUs;
  return policy.driftWholeMs ? Math.ceil(drift / 1000) * 1000 : drift;
}

/** What a time stamp of the client shows that is taken at `at`. */
function stampOf(policy: Policy, at: LocalTime): number {
  return policy.stampUs === 1 ? at : Math.floor(at / policy.stampUs) * policy.stampUs;
}

/** What is left of a claim by the client's own time stamps: TTL − (T2 − T1) − D, µs. */
export function validityOf(policy: Policy, from: LocalTime, now: LocalTime, ttlUs: number): number {
  return ttlUs - driftAllowanceUs(policy, ttlUs) - (stampOf(policy, now) - stampOf(policy, from));
}

/**
 * The local instant at which a claim ends: T1 + TTL − D. It does not depend on how long the votes took; what they took
 * only decides whether anything is left of it. If the owner counts a relative validity, what it gains on the way (the
 * parts that were cut off the stamps, and the time until it starts) is added.
 */
export function deadlineOf(policy: Policy, from: LocalTime, now: LocalTime, ttlUs: number): LocalTime {
  if (policy.deadline === 'whole-ttl') return later(now, ttlUs);
  if (policy.validityCheck === 'unsigned' && validityOf(policy, from, now, ttlUs) < 0) return localTime(LONGEST_US);
  if (policy.deadline === 'relative') return later(now, validityOf(policy, from, now, ttlUs) + policy.deadlineLagUs);
  const end = later(localTime(stampOf(policy, from)), ttlUs - driftAllowanceUs(policy, ttlUs));
  // Whoever looks at cut stamps sees the end no sooner than the first one that is not before it.
  return policy.stampUs === 1 ? end : localTime(Math.ceil(end / policy.stampUs) * policy.stampUs);
}

/** Whether what is left of a claim (TTL − elapsed − D, µs) is enough to take the lock. */
export function isValid(policy: Policy, remainingUs: number): boolean {
  if (policy.validityCheck === 'none') return true;
  if (policy.validityCheck === 'unsigned') return remainingUs !== 0;
  const enough = policy.validityCheck === 'non-negative' ? remainingUs >= 0 : remainingUs > 0;
  return enough && remainingUs >= policy.minValidityUs;
}
