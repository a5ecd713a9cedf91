import { deviates, driftAllowanceUs, type Policy, policyOf, policyWith } from '../deviations/index.js';
import type { Library } from './library.js';
import { LIBRARIES, otherLibrary } from './library-list.js';
import type { System } from './system.js';

/** What the users of a client can set. */
export function libraryOf({ profile }: Policy): Library {
  return (Object.hasOwn(LIBRARIES, profile) ? LIBRARIES[profile] : undefined) ?? otherLibrary(profile);
}

const MILLION = 1_000_000;

/** The least drift factor of a client, ppm, that gives an allowance of so many µs; `null` where it has none, or none so great. */
export function driftFactorPpm({ drift }: Library, ttlMs: number, allowanceUs: number): number | null {
  if (drift === null) return null;
  const ofFactorUs = Math.max(0, allowanceUs - drift.constantUs);
  const neededUs = drift.whole === 'cut' ? 1000 * Math.ceil(ofFactorUs / 1000) : ofFactorUs;
  const ppm = Math.ceil((neededUs * 1000) / ttlMs);
  // A product in floating point that falls short of a whole ms would be cut by one.
  const enough = drift.whole === 'exact' || Math.trunc((ttlMs * ppm) / MILLION) * 1000 >= neededUs ? ppm : ppm + 1;
  return enough < MILLION ? enough : null;
}

/** A factor as people write it. */
export function formatFactor(ppm: number): string {
  return (ppm / MILLION).toFixed(6).replace(/0+$/, '').replace(/\.$/, '');
}

/** The client with the time-out of nodes that it has for locks of this TTL, where that is a share of the TTL. */
export function withItsTimeout(policy: Policy, ttlMs: number): Policy {
  const { timeout } = libraryOf(policy);
  if (timeout === undefined) return policy;
  const ppm = timeout === 'allowance' ? policy.settings.driftPpm : timeout.ppm;
  return policyWith({ settings: { nodeTimeoutUs: Math.round((ttlMs * ppm) / 1000) } }, policy);
}

/** The time-out of a client that has a share of the TTL, for the TTL that it is set for, µs; `null` for another client. */
export function timeoutShareUs(policy: Policy): number | null {
  return libraryOf(policy).timeout === undefined ? null : policy.settings.nodeTimeoutUs;
}

/** The client for locks of another TTL: a time-out of nodes that is a share of it is as much longer or shorter. */
export function timedFor(policy: Policy, fromMs: number, toMs: number): Policy {
  const shareUs = timeoutShareUs(policy);
  if (shareUs === null || fromMs === toMs) return policy;
  return policyWith({ settings: { nodeTimeoutUs: Math.round((shareUs * toMs) / fromMs) } }, policy);
}

/** The share of the TTL that nodes have to answer, as it is set; `null` where it is the client's own, or none. */
function timeoutFactorOf({ policy, ttlMs }: System['client']): string | null {
  const { timeout } = libraryOf(policy);
  const { nodeTimeoutUs } = policy.settings;
  if (timeout === undefined || timeout === 'allowance' || nodeTimeoutUs === null) return null;
  const ppm = Math.round((nodeTimeoutUs * 1000) / ttlMs);
  return ppm === timeout.ppm ? null : formatFactor(ppm);
}

const PER_CALL = 'token-per-call';

/** The client whose caller tries again by a loop of its own, so that each try has a token of its own. */
export function withOwnTokens(policy: Policy): Policy {
  return policyWith({ deviations: policy.deviations.filter((it) => it !== PER_CALL) }, policy);
}

/** The lines that lock in this system, with all that is set otherwise than its client does by itself. */
export function acquisitionLines({ client, work }: System): readonly string[] {
  const { policy, ttlMs, guardUs } = client;
  const { driftPpm, fencing } = policy.settings;
  const usual = policyOf({ profile: policy.profile });
  const factor = driftPpm === usual.settings.driftPpm ? null : formatFactor(driftPpm);
  const ownTokens = deviates(usual, PER_CALL) && !deviates(policy, PER_CALL);
  const longestMs = Math.floor(work.longestUs / 1000);
  // A lock that is looked at before each write may be shorter than the work.
  const hadMs = guardUs === null ? longestMs : Math.max(1, Math.min(longestMs, validMs(client) - guardUs / 1000));
  const workMs = work.extends ? null : hadMs;
  const timeoutFactor = timeoutFactorOf(client);
  const guarded = guardUs !== null;
  return libraryOf(policy).acquire({ ttlMs, factor, timeoutFactor, fencing, ownTokens, workMs, guarded });
}

/** For how long a lock is valid from when it was asked for, ms, rounded down. */
export function validMs({ policy, ttlMs }: System['client']): number {
  return Math.floor(ttlMs - driftAllowanceUs(policy, 1000 * ttlMs) / 1000);
}
