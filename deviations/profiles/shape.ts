import { type Policy, REFERENCE } from '../policy.js';

/** What a profile differs in from the policy that it starts from. */
export type Deviation = Partial<Omit<Policy, 'profile'>>;

/*
 * What known clients have in common is the difference to the reference: none releases what is granted late, none tells
 * its owner of the end of a claim by a timer, and none looks whether an extension was answered before the old deadline.
 */
const KNOWN: Deviation = {
  settle: 'all',
  nodeTimeoutUs: null,
  driftWholeMs: false,
  tokenScope: 'call',
  cleanupAwaited: true,
  releasesLateGrants: false,
  extendOnlyInTime: false,
  maxExtensions: null,
  lossSignal: 'none',
};

/** A profile of a client that asks all nodes at once. */
export function parallel(profile: string, deviation: Deviation): Policy {
  return Object.freeze<Policy>({ ...REFERENCE, ...KNOWN, ...deviation, profile });
}

/** A profile of a client that asks, and releases, one node after the other. */
export function sequential(profile: string, deviation: Deviation): Policy {
  return parallel(profile, { sending: 'sequential', releaseSending: 'sequential', ...deviation });
}

/** No extensions: the library has none. */
export const NOT_EXTENDED: Deviation = { maxExtensions: 0 };

/** Pauses drawn uniformly from 0 to `ms` ms. */
export function upTo(ms: number): Deviation {
  return { retryDelayUs: 500 * ms, retryJitterUs: 500 * ms };
}

/** Pauses drawn uniformly between two numbers of ms. */
export function between(leastMs: number, mostMs: number): Deviation {
  return { retryDelayUs: 500 * (leastMs + mostMs), retryJitterUs: 500 * (mostMs - leastMs) };
}
