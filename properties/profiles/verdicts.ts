import { extendsItself, ORIGINS, type Policy, PROFILES } from '../../core/index.js';
import type { Scenario, Schedule } from '../../scenarios/index.js';
import { policyOf } from '../../sim/index.js';
import type { Distinction } from './distinction.js';
import { fails } from './question.js';

/** What a client makes of a schedule; `n/a` where it has nothing that the schedule is about. */
export type ProfileVerdict = 'ok' | 'bad' | 'n/a';

/** The known clients, in the order in which tables name them. */
export const KNOWN_CLIENTS: readonly string[] = Object.keys(PROFILES).filter((id) => ORIGINS[id] !== undefined);

/** What is stated of a client, put right where a simulation showed otherwise. */
export function expectedVerdict({ stated, beyond, spared, only }: Distinction, profile: string): 'ok' | 'bad' {
  const named = (lists: Distinction['beyond']) => lists.some(([profiles]) => profiles.includes(profile));
  if (only !== undefined && !only.includes(profile)) return 'ok';
  const isStated = stated === 'all' || stated.includes(profile);
  return (isStated && !named(spared)) || named(beyond) ? 'bad' : 'ok';
}

/** Plays a schedule with the policy of a known client. */
export function verdictOf(distinction: Distinction, scenario: Scenario, profile: string): ProfileVerdict {
  const { only, about, question } = distinction;
  if (only !== undefined && !only.includes(profile)) return 'n/a';
  const schedule = playedBy(distinction, scenario, profile);
  const policy = policyOf(schedule.policy);
  if (about !== 'locks' && policy.maxExtensions === 0) return 'n/a';
  if (about === 'watchdogs' && !extendsItself(policy)) return 'n/a';
  return fails(question, schedule) ? 'bad' : 'ok';
}

/** The schedule with all clients as this one, and with its watchdog where the schedule is about those. */
export function playedBy({ about, fixed }: Distinction, { schedule }: Scenario, profile: string): Schedule {
  const watched: Partial<Policy> = about === 'watchdogs' ? (ORIGINS[profile]?.watched ?? {}) : {};
  return { ...schedule, policy: { profile, with: { ...watched, ...fixed } } };
}
