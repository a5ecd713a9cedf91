import { inOrder, parseDeviation } from './catalogue.js';
import { type Habits, type Policy, type PolicyChange, policyWith } from './policy.js';
import { PROFILES } from './profiles/index.js';
import { deviationNumber } from './readers.js';

/** The policy that all clients of a schedule follow: a profile by name, and what differs from it. */
export interface PolicyChoice extends PolicyChange {
  readonly profile: string;
}

/** What of a policy one client may have for itself: its clock, and how its owner hears of the end of a lock. */
export interface ClientTiming {
  readonly clock?: Habits['clock'];
  /** The deviation of the deadline, such as `deadline-counted-after-us:0`; `null` for the sound one, T1 + TTL − D. */
  readonly deadline?: string | null;
}

/** The policy a schedule chooses. Throws a `RangeError` for a profile or a deviation that there is not. */
export function policyOf({ profile, ...change }: PolicyChoice): Policy {
  const policy = Object.hasOwn(PROFILES, profile) ? PROFILES[profile] : undefined;
  if (policy === undefined) throw new RangeError(`"${profile}" is not a known profile`);
  return policyWith(change, policy);
}

/** How a schedule writes a policy down: its profile, and what differs from it. */
export function choiceOf(policy: Policy): PolicyChoice {
  const { profile, deviations } = policy;
  const base = policyOf({ profile });
  const settings = differing(policy.settings, base.settings);
  const habits = differing(policy.habits, base.habits);
  return {
    profile,
    ...(settings === undefined ? {} : { settings }),
    ...(deviations.join() === base.deviations.join() ? {} : { deviations }),
    ...(habits === undefined ? {} : { habits }),
  };
}

/** The fields that are otherwise than in `base`, if any are. */
function differing<T extends object>(fields: T, base: T): Partial<T> | undefined {
  const names = (Object.keys(fields) as (keyof T)[]).filter((name) => fields[name] !== base[name]);
  return names.length === 0 ? undefined : (Object.fromEntries(names.map((name) => [name, fields[name]])) as Partial<T>);
}

/** By policy: what it is with a timing, by that in words. The same few are asked for in every run of a search. */
const timed = new WeakMap<Policy, Map<string, Policy>>();

/** A policy with what one client has for itself. */
export function policyWithTiming(policy: Policy, timing: ClientTiming | undefined): Policy {
  if (timing === undefined) return policy;
  const { clock, deadline } = timing;
  let known = timed.get(policy);
  if (known === undefined) {
    known = new Map();
    timed.set(policy, known);
  }
  const words = `${clock} ${deadline}`;
  let own = known.get(words);
  if (own === undefined) {
    own = policyWith(
      {
        ...(clock === undefined ? {} : { habits: { clock } }),
        ...(deadline === undefined ? {} : { deviations: withDeadline(policy, deadline) }),
      },
      policy,
    );
    known.set(words, own);
  }
  return own;
}

/** The deviations of a policy with this one of the deadline in place of its own. */
export function withDeadline({ deviations }: Policy, deadline: string | null): string[] {
  const others = deviations.filter((it) => parseDeviation(it).deviation.rule !== 'deadline');
  return inOrder(deadline === null ? others : [...others, deadline]);
}

/**
 * The deviation of the deadline of a client with this policy that is told an instant (`absolute`), which it looks at through
 * its stamps, or how long its lock is valid (`relative`).
 */
export function deadlineOf(policy: Policy, kind: 'absolute' | 'relative'): string | null {
  if (kind === 'relative')
    return `deadline-counted-after-us:${deviationNumber(policy, 'deadline-counted-after-us') ?? 0}`;
  const stampUs = deviationNumber(policy, 'stamps-us');
  return stampUs === undefined ? null : `deadline-stamps-us:${stampUs}`;
}
