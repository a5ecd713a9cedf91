import { fieldsOf, type PolicyFields, policyWithFields } from './form-1.js';
import type { Policy } from './policy.js';
import { PROFILES } from './profiles/index.js';

/** The policy that all clients of a schedule follow: a profile by name, and fields that differ from it. */
export interface PolicyChoice {
  readonly profile: string;
  readonly with: PolicyFields;
}

/** What of a policy one client may have for itself: its clock, and what its caller makes of a validity. */
export type ClientTiming = Pick<PolicyFields, 'clock' | 'deadline' | 'deadlineLagUs'>;

/** The policy a schedule chooses. Throws a `RangeError` for an unknown profile. */
export function policyOf({ profile, with: fields }: PolicyChoice): Policy {
  const policy = Object.hasOwn(PROFILES, profile) ? PROFILES[profile] : undefined;
  if (policy === undefined) throw new RangeError(`"${profile}" is not a known profile`);
  return policyWithFields(fields, policy);
}

/** How a schedule writes a policy down: its profile, and what differs from it. */
export function choiceOf(policy: Policy): PolicyChoice {
  const fields: PolicyFields = fieldsOf(policy);
  const ofProfile: PolicyFields = fieldsOf(policyOf({ profile: policy.profile, with: {} }));
  const names = Object.keys(fields) as (keyof PolicyFields)[];
  const differing = names.filter((name) => fields[name] !== ofProfile[name]);
  return { profile: policy.profile, with: Object.fromEntries(differing.map((name) => [name, fields[name]])) };
}

/** A policy with what one client has for itself. */
export function policyWithTiming(policy: Policy, timing: ClientTiming | undefined): Policy {
  return timing === undefined ? policy : policyWithFields(timing, policy);
}
