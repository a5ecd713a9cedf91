import { describe, expect, it } from 'vitest';
import { choiceOf, parseDeviation, policyOf, policyPlus, policyWith, REFERENCE } from '../../deviations/index.js';
import { judge } from '../../properties/judge.js';
import { SEARCHED } from '../../properties/property-lists.js';
import { findScenario, loadCatalogue } from '../../scenarios/catalogue.js';
import type { Fate, PropertyId, Schedule } from '../../scenarios/index.js';

import { lock, type Parts, schedule, unreached } from '../../sim/testing/schedule.js';
import type { Mutant } from './mutant.js';
import { MUTANTS } from './registry.js';

const NODES = ['n0', 'n1', 'n2', 'n3', 'n4'];
const catalogue = loadCatalogue();

/** By planted bug: a scenario of the catalogue that exposes it. */
const EXPOSED_BY: Readonly<Record<string, string>> = {
  M01: 'S23',
  M02: 'S30',
  M03: 'S21',
  M04: 'S17',
  M07: 'S37',
  M08: 'S52',
  M09: 'S34',
  M11: 'S35',
  M11b: 'S32',
  M12: 'S32',
  M12b: 'S48',
  M13: 'S39',
  M14: 'S47',
  M16: 'S65',
  M17: 'S49',
  M18: 'S49',
  M19: 'S24',
  M19b: 'S49',
  M20: 'S18',
  M21: 'S19',
  M22: 'S18b',
  M23: 'S50',
  M24: 'S57',
  M26: 'S54',
  M29: 'S42b',
  M30: 'S32',
  M31: 'S49',
  M32: 'S38',
  M33: 'S65',
  M35: 'S43',
  M36: 'S43b',
  M37: 'S43d',
  M38: 'S45',
  M38b: 'S45',
  M38c: 'S43',
  M41: 'S24',
  M45: 'S03',
  M48: 'S08b',
  M50: 'S16',
  M51: 'S22',
  M54: 'S29',
  M54b: 'S27b',
  M54c: 'S29b',
  M54d: 'S29c',
  M54e: 'S29d',
  M54f: 'S29e',
  M54h: 'S29f',
  M54i: 'S29h',
};

function late(operation: Fate['operation'], nodes: readonly string[], delayUs: number): Fate[] {
  return nodes.map((node) => ({ client: 'c1', operation, node, direction: 'reply', delayUs }));
}

const REORDERING = { link: 'reordering' } as const;

/** The first round of this takes so long to these nodes. */
function delayed(operation: Fate['operation'], nodes: readonly string[], delayUs: number): Fate[] {
  return nodes.map((node) => ({ client: 'c1', operation, node, direction: 'request', round: 0, delayUs }));
}

/** S47 with other pauses for each client, if there is any jitter. */
function splitVote(): Schedule {
  const { schedule: split } = findScenario('S47', catalogue);
  const ppm = [0, 500_000, 999_999];
  const clients = split.clients.map((client, i) => {
    return { ...client, locks: client.locks.map((it) => ({ ...it, jitterPpm: [ppm[i] ?? 0] })) };
  });
  return { ...split, policy: { ...split.policy, settings: { tries: null } }, clients };
}

/** Bugs that no scenario of the catalogue exposes by itself. */
const OWN: Readonly<Record<string, () => Schedule>> = {
  // 53 ms less 3 ms of allowance, and answers after 50 ms: nothing is left.
  M06: () =>
    schedule({
      policy: { settings: { tries: 1 } },
      locks: [[lock(0, { ttlMs: 53 })]],
      fates: late('acquire', NODES, 49_000),
    }),
  // The key is read at 10 001 ms, expires, is set by c2 at 10 002 ms, and deleted at 10 003 ms.
  M10: () => schedule({ locks: [[lock(0, { holdUs: 9_998_000 })], [lock(10_001_000)]] }),
  M25: splitVote,
  // The first answers are lost: c1 finds its own keys at its second try.
  M27: () => {
    const lost = late('acquire', ['n0', 'n1', 'n2'], 0).map(
      ({ delayUs: _, ...fate }): Fate => ({ ...fate, lost: true }),
    );
    return schedule({ policy: { settings: { tries: null } }, fates: lost });
  },
  // n4 never heard of c1; c2 has its key there from 101 to 103 ms, and c1 extends at 102 ms.
  M34: () => {
    const locks = [[lock(0, { extensions: [{ afterUs: 99_000, ttlMs: 10_000 }] })], [lock(100_000)]];
    return schedule({ policy: { settings: { tries: 1 } }, locks, fates: unreached('c1', 'n4') });
  },
  // The extension to 1 s has failed before it arrives, at 350 ms, behind one to 10 s: the keys expire at 1 350 ms.
  M38d: () => {
    const extensions = [
      { afterUs: 99_000, ttlMs: 1_000 },
      { afterUs: 199_000, ttlMs: 10_000 },
    ];
    return schedule({
      cluster: REORDERING,
      locks: [[lock(0, { extensions })]],
      fates: delayed('extend', NODES, 249_000),
    });
  },
  // The extension reaches n4 after the release: n4 had the key, deletes it, and is given it again.
  M38e: () => {
    const extensions = [{ afterUs: 99_000, ttlMs: 10_000 }];
    const locks = [[lock(0, { extensions, holdUs: 110_000 })]];
    return schedule({ cluster: REORDERING, locks, fates: delayed('extend', ['n4'], 99_000) });
  },
  M40: () => schedule({ locks: [[lock(0, { ttlMs: 1_000 })]] }),
  // The keys of c1 are gone at 8 ms, c2 claims at 10 ms, c1 hears of its release at 48 ms.
  M43: () => {
    const parts: Parts = {
      locks: [[lock(0, { holdUs: 5_000 })], [lock(8_000)]],
      fates: late('release', NODES, 40_000),
    };
    return schedule(parts);
  },
};

function broken(plan: Schedule): PropertyId[] {
  return judge(plan, SEARCHED).violations.map(({ property }) => property);
}

/** The schedule with the policy in which a bug is planted, and with the bug or without it. */
function withPolicy(plan: Schedule, { base = {}, change }: Mutant, planted: boolean): Schedule {
  const { settings = {}, deviations = [], habits = {} } = change;
  const own = policyOf(plan.policy);
  const nameOf = (it: string): string => parseDeviation(it).name;
  const bug = deviations.map(nameOf);
  const kept = own.deviations.filter((it) => !bug.includes(nameOf(it)));
  const sound = policyPlus(
    base,
    policyWith(
      {
        settings: defaults(settings, REFERENCE.settings),
        habits: defaults(habits, REFERENCE.habits),
        deviations: kept,
      },
      own,
    ),
  );
  return { ...plan, policy: choiceOf(planted ? policyPlus(change, sound) : sound) };
}

/** The values that these fields have in the reference. */
function defaults<T extends object>(fields: Partial<T>, reference: T): Partial<T> {
  const entries = Object.entries(reference).filter(([name]) => Object.hasOwn(fields, name));
  return Object.fromEntries(entries) as Partial<T>;
}

describe('each planted bug', () => {
  it.each(MUTANTS)('is exposed by a schedule, as the only thing that is wrong: $id', (mutant) => {
    const { id, change, expect: property } = mutant;
    const scenario = EXPOSED_BY[id];
    const plan = scenario === undefined ? OWN[id]?.() : findScenario(scenario, catalogue).schedule;
    if (plan === undefined) throw new Error(`nothing exposes ${id}`);
    expect(broken(withPolicy(plan, mutant, true))).toContain(property);
    // What is wrong with the world is wrong in the scenario already.
    if (!('world' in change)) expect(broken(withPolicy(plan, mutant, false))).not.toContain(property);
  });
});
