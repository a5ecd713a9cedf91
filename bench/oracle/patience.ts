import { deviates, type Policy, releasesInTurn, statedDrift } from '../../deviations/index.js';
import type { Cluster } from '../../scenarios/index.js';

/*
 * How long things may take by the policy alone, µs of the client's clock.
 */

/** One attempt: a time-out, or as many as there are nodes where they are asked in turn; without one, the TTL. */
function attemptUs(policy: Policy, places: number, ttlMs: number): number {
  if (policy.settings.nodeTimeoutUs === null) return 1000 * ttlMs;
  // To read the counters, to give one to who has none and read again, to raise them.
  const rounds = policy.settings.fencing ? 3 : 0;
  return ((deviates(policy, 'asks-in-turn') ? places : 1) + rounds) * policy.settings.nodeTimeoutUs;
}

/** The releases of a lock or an attempt. */
function releaseUs(policy: Policy, places: number, ttlMs: number): number {
  if (policy.settings.nodeTimeoutUs === null) return 1000 * ttlMs;
  const inTurn = releasesInTurn(policy);
  return inTurn ? places * policy.settings.nodeTimeoutUs : policy.settings.nodeTimeoutUs;
}

/** The clean-up of an attempt, if it is waited for. */
function cleanUpUs(policy: Policy, places: number, ttlMs: number): number {
  const isAwaited = deviates(policy, 'awaits-clean-up', 'awaits-whole-clean-up');
  return isAwaited ? releaseUs(policy, places, ttlMs) : 0;
}

/** A whole call of `release`, with all its tries; without an end where it is tried for ever. */
export function releaseCallUs(policy: Policy, places: number, ttlMs: number): number {
  const { releaseTries, retryDelayUs } = policy.settings;
  if (releaseTries === null) return Number.POSITIVE_INFINITY;
  return releaseTries * releaseUs(policy, places, ttlMs) + (releaseTries - 1) * retryDelayUs;
}

/** The longest pause between two tries, µs. */
function pauseUs({ settings: { retryDelayUs, retryJitterUs } }: Policy): number {
  return retryDelayUs + retryJitterUs;
}

/** One try with what comes after it: its clean-up, if that is waited for, and the pause, if there is one. */
export function tryUs(policy: Policy, places: number, ttlMs: number, isLast: boolean): number {
  const pause = isLast && !deviates(policy, 'pauses-after-last') ? 0 : pauseUs(policy);
  return attemptUs(policy, places, ttlMs) + cleanUpUs(policy, places, ttlMs) + pause;
}

/** Alone and undisturbed: a release on its way, the attempt under way, a pause, and the attempt that has to succeed. */
export function aloneUs(policy: Policy, places: number, ttlMs: number): number {
  const attempt = attemptUs(policy, places, ttlMs);
  const cleanUp = cleanUpUs(policy, places, ttlMs);
  return cleanUp + (policy.settings.nodeTimeoutUs ?? attempt) + attempt + pauseUs(policy) + attempt;
}

/** A message that takes longer than this each way, as do all those of its command, uses up a time-out, or the validity. */
export function slowUs(policy: Policy, places: number, ttlMs: number, scripts: Cluster['scripts'] = 'by-text'): number {
  const { nodeTimeoutUs, minValidityUs } = policy.settings;
  const { driftPpm, driftUs } = statedDrift(policy);
  // Request and answer; where the node has to ask for a script, both of them twice.
  const messages = scripts === 'by-hash' ? 4 : 2;
  // The allowance, rounded up to whole microseconds or, if asked, milliseconds.
  const drift = (ttlMs * driftPpm) / 1000 + driftUs;
  const allowance = deviates(policy, 'drift-unrounded') ? Math.ceil(drift) : 1000 * Math.ceil(drift / 1000);
  const validity = 1000 * ttlMs - allowance - minValidityUs;
  const roundTrip = Math.min(
    nodeTimeoutUs ?? Number.POSITIVE_INFINITY,
    validity / (deviates(policy, 'asks-in-turn') ? places : 1),
  );
  return Math.max(0, Math.floor((roundTrip - 1) / messages));
}
