import { extendsItself, type Settings } from '../../core/index.js';
import { choiceOf, ORIGINS, type Policy, PROFILES, policyOf, policyPlus } from '../../deviations/index.js';

import type { Scenario, Schedule } from '../../scenarios/index.js';

import type { Distinction } from './distinction.js';
import { fails } from './question.js';

/** What a client makes of a schedule; `n/a` where it has nothing that the schedule is about. */
type ProfileVerdict = 'ok' | 'bad' | 'n/a';

/** The known clients, in the order in which tables name them. */
export const KNOWN_CLIENTS: readonly string[] = Object.keys(PROFILES).filter((id) => ORIGINS[id] !== undefined);

/** What is stated of a client, put right where a simulation showed otherwise. */
export function expectedVerdict({ stated, beyond, spared, only }: Distinction, profile: string): 'ok' | 'bad' {
  const named = (lists: Distinction['beyond']) => lists.some(([profiles]) => profiles.includes(profile));
  if (only !== undefined && !only.includes(profile)) return 'ok';
  const isStated = stated === 'all' || stated.includes(profile);
  return (isStated && !named(spared)) || named(beyond) ? 'bad' : 'ok';
}

/** Whether a client has what a schedule is about. */
export function isAbout({ about, only, fixed }: Distinction, profile: string): boolean {
  if (only !== undefined && !only.includes(profile)) return false;
  const policy = policyFor({ about, fixed }, profile);
  if (about !== 'locks' && policy.settings.maxExtensions === 0) return false;
  return about !== 'watchdogs' || extendsItself(policy.settings);
}

/** Plays a schedule with the policy of a known client. */
export function verdictOf(distinction: Distinction, scenario: Scenario, profile: string): ProfileVerdict {
  if (!isAbout(distinction, profile)) return 'n/a';
  return fails(distinction.question, playedBy(distinction, scenario, profile)) ? 'bad' : 'ok';
}

/** The schedule with all clients as this one, and with its watchdog where the schedule is about those. */
export function playedBy({ about, fixed }: Distinction, { schedule }: Scenario, profile: string): Schedule {
  return { ...schedule, policy: choiceOf(policyFor({ about, fixed }, profile)) };
}

function policyFor({ about, fixed }: Pick<Distinction, 'about' | 'fixed'>, profile: string): Policy {
  return policyPlus(fixed, policyOf({ profile, settings: watchdog(about, profile) }));
}

/** What is different where a client extends by itself, if it only does so when asked to. */
function watchdog(about: Distinction['about'], profile: string): Partial<Settings> {
  return about === 'watchdogs' ? (ORIGINS[profile]?.watched ?? {}) : {};
}
