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
  return libraryOf(policy).acquire({ ttlMs, factor, fencing, ownTokens, workMs, guarded: guardUs !== null });
}

/** For how long a lock is valid from when it was asked for, ms, rounded down. */
export function validMs({ policy, ttlMs }: System['client']): number {
  return Math.floor(ttlMs - driftAllowanceUs(policy, 1000 * ttlMs) / 1000);
}
