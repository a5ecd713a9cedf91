import { applyPatch } from 'rfc6902';
import { MOST_NODES, type Settings } from '../core/index.js';
import {
  type ClientTiming,
  choiceOf,
  type Habits,
  type Policy,
  parseDeviation,
  policyOf,
  policyWith,
  REFERENCE,
  withDeadline,
} from '../deviations/index.js';
import { notAProfile, profileOf } from './checks.js';
import { countOr, flag, MICROS, oneOf, ppm, record, text, whole } from './grammar-parts.js';
import { pointer, ScheduleError } from './input-error.js';
import { mitigate } from './mitigations.js';
import { isPlainObject, type PlainObject } from './plain-data.js';
import { HABIT_FIELDS, SETTING_FIELDS } from './policy-grammar.js';
import { readAs } from './read-as.js';
import type { Change, Scenario, Variant } from './scenario.js';
import type { Schedule } from './schedule.js';

/*
 * Schedules of form 1 (`lockstep.schedule/1`) as schedules of today. Their policies had one field for each choice, whether it
 * was a setting, a habit or a rule. This is the only place that knows these fields.
 */

type Value = string | number | boolean | null;
type Fields = { readonly [field: string]: Value };

/** By field: its sound value, and the deviations by its other ones. Of several with one name, the first is what it stands for. */
const RULES: Readonly<Record<string, readonly [sound: string | boolean, names: Readonly<Record<string, string>>]>> = {
  sending: ['parallel', { sequential: 'asks-in-turn' }],
  settle: [
    'early',
    {
      all: 'settles-with-all',
      'early-yes': 'settles-early-on-yes',
      'early-no': 'settles-early-on-no',
      'quorum-only': 'settles-by-quorum-only',
    },
  ],
  onNodeError: ['no-vote', { vote: 'error-is-vote', abort: 'error-aborts', forfeit: 'error-forfeits' }],
  grantReadAs: ['yes', { error: 'grant-is-error' }],
  givesUpOn: ['nothing', { 'too-slow': 'lateness-quits', errors: 'errors-quit' }],
  tokenScope: ['attempt', { call: 'token-per-call', instance: 'token-per-call' }],
  driftWholeMs: [true, { false: 'drift-unrounded' }],
  validityFrom: ['attempt', { call: 'counts-from-call', reply: 'counts-from-reply' }],
  validityCheck: [
    'positive',
    { 'non-negative': 'zero-is-valid', none: 'validity-unchecked', unsigned: 'validity-unsigned' },
  ],
  onlyIfAbsent: [true, { false: 'sets-any' }],
  keyExpiry: [
    'ttl',
    {
      thousandfold: 'key-thousandfold',
      'thousandfold-per-retry': 'key-thousandfold-per-retry',
      thousandth: 'key-thousandth',
      none: 'key-for-ever',
    },
  ],
  retryPauses: [true, { false: 'no-pauses' }],
  pausesAfterLast: [false, { true: 'pauses-after-last' }],
  cleanup: ['all', { 'not-refused': 'cleans-unless-refused', granted: 'cleans-granted', none: 'cleans-nothing' }],
  cleanupAfter: ['each-attempt', { 'last-attempt': 'cleans-last-only', 'all-but-last': 'cleans-all-but-last' }],
  releasesLateGrants: [true, { false: 'late-grants-stay' }],
  releaseSteps: ['one', { 'get-then-del': 'gets-then-deletes' }],
  releaseSending: ['parallel', { sequential: 'releases-in-turn', 'until-error': 'releases-until-error' }],
  releaseRule: ['best-effort', { deleted: 'release-must-delete', freed: 'release-must-free' }],
  releaseTo: ['all', { granted: 'releases-granted' }],
  extendCommand: ['own', { 'own-or-missing': 'extends-missing', present: 'extends-present', any: 'extends-any' }],
  extendReadAs: ['answer', { yes: 'refusal-extends' }],
  extendFrom: ['start', { reply: 'extension-counts-from-reply' }],
  extendOnFail: ['keep', { release: 'failure-releases', 'give-up': 'failure-gives-up' }],
  autoExtendLate: ['at-once', { never: 'no-late-auto-extension' }],
  lossSignal: ['local-timer', { none: 'no-alarm', 'after-reply': 'no-alarm' }],
  rejoin: ['copy', { 'copy-if-missing': 'counter-kept', 'at-once': 'counter-from-zero' }],
  fencing: [
    'none',
    {
      'counter-alone': 'fence-without-token',
      'plain-write': 'counter-plainly-written',
      'piggybacked-read': 'fence-from-votes',
      max: 'fence-max',
      sum: 'fence-sum',
      min: 'fence-min',
    },
  ],
};

/** Tokens that nodes make of their grants, without a round for them. */
const COUNTED = ['max', 'sum', 'min'];

const rules = Object.entries(RULES).map(([field, [sound, names]]) => {
  const values = field === 'fencing' ? ['quorum', ...Object.keys(names)] : Object.keys(names);
  const grammar = typeof sound === 'boolean' ? flag() : oneOf(sound, ...values);
  return [field, grammar.exactOptional()] as const;
});

const { tokenPerProcess: _, ...ownHabits } = HABIT_FIELDS;

const FIELDS = record('a policy', {
  ...SETTING_FIELDS,
  ...ownHabits,
  ...Object.fromEntries(rules),
  driftPpm: whole(ppm(1_000_000)).exactOptional(),
  quorum: countOr(1, MOST_NODES, 'majority', 'half', 'float-majority').exactOptional(),
  stampUs: whole({
    low: 1,
    high: 1_000_000,
    right: 'a whole number of microseconds from 1 to 1000000',
  }).exactOptional(),
  deadline: oneOf('absolute', 'relative', 'whole-ttl').exactOptional(),
  deadlineLagUs: whole(MICROS).exactOptional(),
  ownKeyGrants: flag().exactOptional(),
  ownKeyRenews: flag().exactOptional(),
  cleanupAwaited: flag().exactOptional(),
  releaseChecksToken: flag().exactOptional(),
  extendQuorumOffset: whole({
    low: -MOST_NODES,
    high: MOST_NODES,
    right: `a whole number of votes within ±${MOST_NODES}`,
  }).exactOptional(),
  extensionCheck: oneOf('validity', 'none').exactOptional(),
  extendOnlyInTime: flag().exactOptional(),
  extendStartsInTime: flag().exactOptional(),
});

const CHOICE = record('a policy choice', { profile: text('the name of a profile'), with: FIELDS });

const TIMING = record('a timing', {
  clock: HABIT_FIELDS.clock,
  deadline: FIELDS.shape.deadline,
  deadlineLagUs: FIELDS.shape.deadlineLagUs,
});

/** What the fields come to, those that are left out being sound. */
function deviationsOf(fields: Fields): string[] {
  const { deadlineLagUs = 0, driftPpm = 0, driftUs = 0, extendQuorumOffset = 0, quorum, stampUs = 1 } = fields;
  const { deadline = 'absolute', releaseSending = 'parallel', releaseSteps = 'one', validityCheck } = fields;
  const isCounted = deadline === 'relative' || validityCheck === 'unsigned';
  const isEarly = fields.settle !== 'all' && releaseSending === 'parallel';
  const grantsOwn = fields.onlyIfAbsent !== false && fields.ownKeyGrants === true;
  const list: readonly (readonly [when: boolean, name: string])[] = [
    [quorum === 'half', 'half-quorum'],
    [quorum === 'float-majority', 'float-majority'],
    [typeof quorum === 'number', `quorum:${quorum}`],
    [extendQuorumOffset !== 0, `extension-votes:${extendQuorumOffset}`],
    [Number(driftPpm) < 0, 'drift-added'],
    [Number(driftPpm) >= 0 && Number(driftUs) < 0, 'drift-constant-added'],
    [stampUs !== 1, `stamps-us:${stampUs}`],
    [fields.extensionCheck === 'none' && validityCheck !== 'none', 'extension-unchecked'],
    [deadline === 'whole-ttl', 'deadline-whole-ttl'],
    [deadline !== 'whole-ttl' && isCounted, `deadline-counted-after-us:${deadline === 'relative' ? deadlineLagUs : 0}`],
    [deadline === 'absolute' && !isCounted && stampUs !== 1, `deadline-stamps-us:${stampUs}`],
    [!isEarly, 'release-awaits-all'],
    [fields.cleanupAwaited === true, isEarly ? 'awaits-clean-up' : 'awaits-whole-clean-up'],
    [fields.extendOnlyInTime === false, fields.extendStartsInTime ? 'extends-if-begun-in-time' : 'extends-late'],
    [fields.lossSignal === 'after-reply', 'loss-noticed-at-failure'],
    [grantsOwn, fields.ownKeyRenews ? 'own-key-renews' : 'own-key-grants'],
    [COUNTED.includes(String(fields.fencing)), 'grants-count'],
    [fields.releaseChecksToken === false && releaseSteps === 'one', 'deletes-any'],
  ];
  const named = Object.entries(RULES).flatMap(([field, [, names]]) => names[String(fields[field])] ?? []);
  return [...named, ...list.flatMap(([when, name]) => (when ? [name] : []))];
}

/** `base` with these fields in place of its own. */
function withFields(change: Fields, base: Policy): Policy {
  const fields: Fields = { ...fieldsOf(base), ...change };
  const chosen = <T extends object>(of: T): Partial<T> =>
    Object.fromEntries(Object.keys(of).map((name) => [name, fields[name]])) as Partial<T>;
  const [driftPpm, driftUs] = [Number(fields.driftPpm), Number(fields.driftUs)];
  const settings: Partial<Settings> = {
    ...chosen(base.settings),
    driftPpm: Math.abs(driftPpm),
    driftUs: driftPpm < 0 ? -driftUs : Math.abs(driftUs),
    fencing: !['none', ...COUNTED].includes(String(fields.fencing)),
  };
  const habits: Partial<Habits> = { ...chosen(base.habits), tokenPerProcess: fields.tokenScope === 'instance' };
  return policyWith({ settings, deviations: deviationsOf(fields), habits }, base);
}

/** The fields of a policy. */
function fieldsOf({ settings, deviations, habits }: Policy): Fields {
  const { tokenPerProcess, ...rest } = habits;
  return Object.assign(
    { ...settings, ...rest, fencing: settings.fencing ? 'quorum' : 'none' },
    ...deviations.map((it) => fieldsOfOne(it, settings)),
    tokenPerProcess ? { tokenScope: 'instance' } : {},
  );
}

function fieldsOfOne(reference: string, { driftPpm, driftUs }: Settings): Fields {
  const { name, number } = parseDeviation(reference);
  for (const [field, [sound, names]] of Object.entries(RULES)) {
    const value = Object.keys(names).find((it) => names[it] === name);
    if (value !== undefined && name !== 'validity-unchecked')
      return { [field]: typeof sound === 'boolean' ? !sound : value };
  }
  const fields: Readonly<Record<string, Fields>> = {
    'half-quorum': { quorum: 'half' },
    'float-majority': { quorum: 'float-majority' },
    quorum: { quorum: number },
    'extension-votes': { extendQuorumOffset: number },
    'drift-added': { driftPpm: -driftPpm, driftUs: -driftUs },
    'drift-constant-added': { driftUs: -driftUs },
    'stamps-us': { stampUs: number },
    'deadline-counted-after-us': { deadline: 'relative', deadlineLagUs: number },
    'deadline-whole-ttl': { deadline: 'whole-ttl' },
    'validity-unchecked': { validityCheck: 'none', extensionCheck: 'none' },
    'extension-unchecked': { extensionCheck: 'none' },
    'awaits-clean-up': { cleanupAwaited: true },
    'awaits-whole-clean-up': { cleanupAwaited: true },
    'extends-late': { extendOnlyInTime: false },
    'extends-if-begun-in-time': { extendOnlyInTime: false, extendStartsInTime: true },
    'loss-noticed-at-failure': { lossSignal: 'after-reply' },
    'own-key-grants': { ownKeyGrants: true },
    'own-key-renews': { ownKeyGrants: true, ownKeyRenews: true },
    'deletes-any': { releaseChecksToken: false },
  };
  return fields[name] ?? {};
}

function isFormOne(value: unknown): value is PlainObject {
  return isPlainObject(value) && value.schema === 'lockstep.schedule/1';
}

function choiceFrom(value: unknown, base: string): ReturnType<typeof choiceOf> {
  const { profile, with: fields } = readAs(CHOICE, value, base);
  const policy = profileOf(profile);
  if (policy === undefined) throw new ScheduleError(pointer(base, 'profile'), notAProfile(profile));
  return choiceOf(withFields(fields as Fields, policy));
}

function timingFrom(value: unknown, policy: Policy, base: string): ClientTiming {
  const { clock, ...rest } = readAs(TIMING, value, base);
  const { deviations } = withFields(rest as Fields, policy);
  const deadline = deviations.find((it) => parseDeviation(it).deviation.rule === 'deadline') ?? null;
  const isOwn = withDeadline(policy, deadline).join() !== policy.deviations.join();
  return { ...(clock === undefined ? {} : { clock: clock as Habits['clock'] }), ...(isOwn ? { deadline } : {}) };
}

/**
 * A schedule of form 1 as one of today; anything else as it is.
 *
 * @param base - Where it is, for errors: JSON pointer.
 * @throws {@link ScheduleError} if there is a field that form 1 does not have, or a value that it cannot have.
 */
export function scheduleFromFormOne(value: unknown, base = ''): unknown {
  if (!isFormOne(value)) return value;
  // What is missing is for the grammar of today to say, after what is mistyped.
  const policy = value.policy === undefined ? undefined : choiceFrom(value.policy, pointer(base, 'policy'));
  const own = policyOf(policy ?? { profile: REFERENCE.profile });
  const clients = Array.isArray(value.clients)
    ? value.clients.map((client, index) => clientFrom(client, own, pointer(base, 'clients', index)))
    : value.clients;
  return { ...value, ...(policy === undefined ? {} : { policy }), schema: 'lockstep.schedule/2', clients };
}

/** A scenario with its schedule of form 1 as one of today; anything else as it is. */
export function scenarioFromFormOne(value: unknown): unknown {
  if (!isPlainObject(value) || !isFormOne(value.schedule)) return value;
  return { ...value, schedule: scheduleFromFormOne(value.schedule, '/schedule') };
}

/**
 * The variants of a scenario whose schedule was of form 1: what they change of its policy becomes one change.
 *
 * @param from - The scenario as it was read.
 */
export function variantsFromFormOne(scenario: Scenario, from: unknown): Scenario {
  if (!isPlainObject(from) || !isFormOne(from.schedule)) return scenario;
  const { schedule } = scenario;
  const { policy } = from.schedule;
  const variants = (list: 'flips' | 'neighbours'): Variant[] =>
    scenario[list].map((it, index) => {
      if (it.change === undefined) return it;
      const base = pointer('', list, index, 'change');
      const before = it.with === undefined ? policy : mitigated(schedule, it.with);
      return { ...it, change: changesFrom(it.change, before, base) };
    });
  return { ...scenario, flips: variants('flips'), neighbours: variants('neighbours') };
}

/** What is changed of the policy becomes one change. */
function changesFrom(changes: readonly Change[], before: unknown, base: string): Change[] {
  const own = changes.filter(({ path }) => path === '/policy' || path.startsWith('/policy/'));
  const changed = { policy: structuredClone(before) };
  const [error] = applyPatch(changed, structuredClone(own)).filter((problem) => problem !== null);
  if (error) throw new ScheduleError(base, `cannot be made: ${error.message}`);
  const value = choiceFrom(changed.policy, base);
  const others = changes.filter((change) => !own.includes(change));
  return [
    ...(own.length === 0 ? [] : [{ op: 'replace', path: '/policy', value } as const]),
    ...others.map((it) => (it.op === 'remove' ? it : { ...it, value: valueFrom(it, policyOf(value), base) })),
  ];
}

/** What a change of clients puts in, with timings of today. */
function valueFrom({ path, value }: Exclude<Change, { op: 'remove' }>, policy: Policy, base: string): unknown {
  if (/^\/clients\/\d+\/timing\/./.test(path)) throw new ScheduleError(base, 'replace the timing as a whole');
  if (/^\/clients\/\d+\/timing$/.test(path)) return timingFrom(value, policy, base);
  if (/^\/clients\/(\d+|-)$/.test(path)) return clientFrom(value, policy, base);
  return path === '/clients' && Array.isArray(value) ? value.map((it) => clientFrom(it, policy, base)) : value;
}

function clientFrom(client: unknown, policy: Policy, base: string): unknown {
  if (!isPlainObject(client) || client.timing === undefined) return client;
  return { ...client, timing: timingFrom(client.timing, policy, pointer(base, 'timing')) };
}

/** The policy with a mitigation in place, in fields. */
function mitigated(schedule: Schedule, mitigation: string): { readonly profile: string; readonly with: Fields } {
  const policy = policyOf(mitigate(schedule, mitigation).policy);
  return { profile: policy.profile, with: fieldsOf(policy) };
}
