import type { Policy } from '../../deviations/index.js';
import type { Cluster } from '../../scenarios/index.js';

/*
 * How long things may take by the policy alone, µs of the client's clock.
 */

/** One attempt: a time-out, or as many as there are nodes where they are asked in turn; without one, the TTL. */
export function attemptUs({ nodeTimeoutUs, sending, fencing }: Policy, places: number, ttlMs: number): number {
  if (nodeTimeoutUs === null) return 1000 * ttlMs;
  // To read the counters, to give one to who has none and read again, to raise them.
  const rounds = ['none', 'max', 'sum', 'min'].includes(fencing) ? 0 : 3;
  return ((sending === 'sequential' ? places : 1) + rounds) * nodeTimeoutUs;
}

/** The releases of a lock or an attempt. */
export function releaseUs({ nodeTimeoutUs, releaseSending }: Policy, places: number, ttlMs: number): number {
  if (nodeTimeoutUs === null) return 1000 * ttlMs;
  return releaseSending === 'parallel' ? nodeTimeoutUs : places * nodeTimeoutUs;
}

/** A whole call of `release`, with all its tries; without an end where it is tried for ever. */
export function releaseCallUs(policy: Policy, places: number, ttlMs: number): number {
  const { releaseTries, retryDelayUs } = policy;
  if (releaseTries === null) return Number.POSITIVE_INFINITY;
  return releaseTries * releaseUs(policy, places, ttlMs) + (releaseTries - 1) * retryDelayUs;
}

/** The longest pause between two tries, µs. */
export function pauseUs({ retryDelayUs, retryJitterUs }: Policy): number {
  return retryDelayUs + retryJitterUs;
}

/** One try with what comes after it: its clean-up, if that is waited for, and the pause, if there is one. */
export function tryUs(policy: Policy, places: number, ttlMs: number, isLast: boolean): number {
  const cleanUp = policy.cleanupAwaited ? releaseUs(policy, places, ttlMs) : 0;
  const pause = isLast && !policy.pausesAfterLast ? 0 : pauseUs(policy);
  return attemptUs(policy, places, ttlMs) + cleanUp + pause;
}

/** Alone and undisturbed: a release on its way, the attempt under way, a pause, and the attempt that has to succeed. */
export function aloneUs(policy: Policy, places: number, ttlMs: number): number {
  const attempt = attemptUs(policy, places, ttlMs);
  const cleanUp = policy.cleanupAwaited ? releaseUs(policy, places, ttlMs) : 0;
  return cleanUp + (policy.nodeTimeoutUs ?? attempt) + attempt + pauseUs(policy) + attempt;
}

/** A message that takes longer than this each way, as do all those of its command, uses up a time-out, or the validity. */
export function slowUs(
  { nodeTimeoutUs, sending, driftPpm, driftUs, driftWholeMs, minValidityUs }: Policy,
  places: number,
  ttlMs: number,
  scripts: Cluster['scripts'] = 'by-text',
): number {
  // Request and answer; where the node has to ask for a script, both of them twice.
  const messages = scripts === 'by-hash' ? 4 : 2;
  // The allowance, rounded up to whole microseconds or, if asked, milliseconds.
  const drift = (ttlMs * driftPpm) / 1000 + driftUs;
  const validity = 1000 * ttlMs - (driftWholeMs ? 1000 * Math.ceil(drift / 1000) : Math.ceil(drift)) - minValidityUs;
  const roundTrip = Math.min(
    nodeTimeoutUs ?? Number.POSITIVE_INFINITY,
    validity / (sending === 'sequential' ? places : 1),
  );
  return Math.max(0, Math.floor((roundTrip - 1) / messages));
}
