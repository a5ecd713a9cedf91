import type { Settings } from '../core/index.js';
import { parseDeviation } from './catalogue.js';
import { type Policy, policyWith, REFERENCE } from './policy.js';

/*
 * Policies as schedules of form 1 have them: a field for each choice, whether it is a setting, a habit or a rule. This is the
 * only place that knows these fields.
 */

/** Some of the fields. What is left out is as in the profile. */
export interface PolicyFields {
  readonly quorum?: 'majority' | 'half' | 'float-majority' | number;
  readonly votesWanted?: 'quorum' | 'all' | number;
  readonly nodesFrom?: 'configured' | 'connected';
  readonly sending?: 'parallel' | 'sequential';
  readonly settle?: 'early' | 'early-yes' | 'early-no' | 'all' | 'quorum-only';
  readonly nodeTimeoutUs?: number | null;
  readonly onNodeError?: 'no-vote' | 'vote' | 'abort' | 'forfeit';
  readonly grantReadAs?: 'yes' | 'error';
  readonly clock?: 'boot' | 'monotonic' | 'wall';
  readonly stampUs?: number;
  readonly deadline?: 'absolute' | 'relative' | 'whole-ttl';
  readonly deadlineLagUs?: number;
  readonly validityFrom?: 'attempt' | 'call' | 'reply';
  readonly driftPpm?: number;
  readonly driftUs?: number;
  readonly driftWholeMs?: boolean;
  readonly validityCheck?: 'positive' | 'non-negative' | 'none' | 'unsigned';
  readonly minValidityUs?: number;
  readonly tokenFrom?: 'random' | 'clock' | 'clock-us';
  readonly tokenScope?: 'attempt' | 'call' | 'instance';
  readonly onlyIfAbsent?: boolean;
  readonly keyExpiry?: 'ttl' | 'thousandfold' | 'thousandfold-per-retry' | 'thousandth' | 'none';
  readonly ownKeyGrants?: boolean;
  readonly ownKeyRenews?: boolean;
  readonly tries?: number | null;
  readonly acquireTimeoutUs?: number | null;
  readonly retryDelayUs?: number;
  readonly retryJitterUs?: number;
  readonly retryPauses?: boolean;
  readonly pausesAfterLast?: boolean;
  readonly cleanup?: 'all' | 'not-refused' | 'granted' | 'none';
  readonly cleanupAfter?: 'each-attempt' | 'last-attempt' | 'all-but-last';
  readonly cleanupAwaited?: boolean;
  readonly givesUpOn?: 'nothing' | 'too-slow' | 'errors';
  readonly releasesLateGrants?: boolean;
  readonly releaseChecksToken?: boolean;
  readonly releaseSteps?: 'one' | 'get-then-del';
  readonly releaseSending?: 'parallel' | 'sequential' | 'until-error';
  readonly releaseRule?: 'best-effort' | 'deleted' | 'freed';
  readonly releaseTries?: number | null;
  readonly beliefEnds?: 'at-release' | 'after-release';
  readonly releaseTo?: 'all' | 'granted';
  readonly extendCommand?: 'own' | 'own-or-missing' | 'present' | 'any';
  readonly extendReadAs?: 'answer' | 'yes';
  readonly extendQuorumOffset?: number;
  readonly extendFrom?: 'start' | 'reply';
  readonly extensionCheck?: 'validity' | 'none';
  readonly extendOnlyInTime?: boolean;
  readonly extendStartsInTime?: boolean;
  readonly extendOnFail?: 'keep' | 'release' | 'give-up';
  readonly maxExtensions?: number | null;
  readonly autoExtendAtUs?: number | null;
  readonly autoExtendAtPpm?: number | null;
  readonly autoExtendLate?: 'at-once' | 'never';
  readonly autoExtendSpacingUs?: number;
  readonly lossSignal?: 'local-timer' | 'after-reply' | 'none';
  readonly lockDelayMs?: number;
  readonly fencing?: 'none' | 'quorum' | 'counter-alone' | 'plain-write' | 'piggybacked-read' | 'max' | 'sum' | 'min';
  readonly rejoin?: 'copy' | 'copy-if-missing' | 'at-once';
}

type Names = Readonly<Record<string, string>>;

/** Deviations by field and value. Of several values with one name, the first is what the name stands for. */
const NAMES: Readonly<Partial<Record<keyof PolicyFields, Names>>> = {
  quorum: { half: 'half-quorum', 'float-majority': 'float-majority' },
  grantReadAs: { error: 'grant-is-error' },
  onNodeError: { vote: 'error-is-vote', abort: 'error-aborts', forfeit: 'error-forfeits' },
  givesUpOn: { 'too-slow': 'lateness-quits', errors: 'errors-quit' },
  extendReadAs: { yes: 'refusal-extends' },
  settle: {
    all: 'settles-with-all',
    'early-yes': 'settles-early-on-yes',
    'early-no': 'settles-early-on-no',
    'quorum-only': 'settles-by-quorum-only',
  },
  sending: { sequential: 'asks-in-turn' },
  releaseSending: { sequential: 'releases-in-turn', 'until-error': 'releases-until-error' },
  tokenScope: { call: 'token-per-call', instance: 'token-per-call' },
  driftWholeMs: { false: 'drift-unrounded' },
  validityFrom: { call: 'counts-from-call', reply: 'counts-from-reply' },
  extendFrom: { reply: 'extension-counts-from-reply' },
  validityCheck: { 'non-negative': 'zero-is-valid', none: 'validity-unchecked', unsigned: 'validity-unsigned' },
  retryPauses: { false: 'no-pauses' },
  pausesAfterLast: { true: 'pauses-after-last' },
  cleanup: { 'not-refused': 'cleans-unless-refused', granted: 'cleans-granted', none: 'cleans-nothing' },
  cleanupAfter: { 'last-attempt': 'cleans-last-only', 'all-but-last': 'cleans-all-but-last' },
  releaseTo: { granted: 'releases-granted' },
  releaseRule: { deleted: 'release-must-delete', freed: 'release-must-free' },
  releasesLateGrants: { false: 'late-grants-stay' },
  extendOnFail: { release: 'failure-releases', 'give-up': 'failure-gives-up' },
  lossSignal: { none: 'no-alarm', 'after-reply': 'no-alarm' },
  autoExtendLate: { never: 'no-late-auto-extension' },
  keyExpiry: {
    none: 'key-for-ever',
    thousandfold: 'key-thousandfold',
    thousandth: 'key-thousandth',
    'thousandfold-per-retry': 'key-thousandfold-per-retry',
  },
  onlyIfAbsent: { false: 'sets-any' },
  extendCommand: { 'own-or-missing': 'extends-missing', present: 'extends-present', any: 'extends-any' },
  releaseSteps: { 'get-then-del': 'gets-then-deletes' },
  fencing: {
    'counter-alone': 'fence-without-token',
    'plain-write': 'counter-plainly-written',
    'piggybacked-read': 'fence-from-votes',
    max: 'fence-max',
    sum: 'fence-sum',
    min: 'fence-min',
  },
  rejoin: { 'copy-if-missing': 'counter-kept', 'at-once': 'counter-from-zero' },
};

/** The deviations that fields come to, those that are left out being sound. */
function deviationsOf(fields: PolicyFields): string[] {
  const list = Object.entries(NAMES).flatMap(([field, names]) => {
    const value = String(fields[field as keyof PolicyFields]);
    return Object.hasOwn(names, value) ? [names[value] ?? ''] : [];
  });
  return [...list, ...ofSeveralFields(fields)];
}

/** Those that more than one field makes, or a number. */
function ofSeveralFields(fields: PolicyFields): string[] {
  const { deadline = 'absolute', deadlineLagUs = 0, driftPpm = 0, driftUs = 0, quorum, stampUs = 1 } = fields;
  const { extendQuorumOffset = 0, fencing = 'none', validityCheck } = fields;
  const names: string[] = [];
  const add = (when: boolean | undefined, name: string): void => void (when && names.push(name));
  add(typeof quorum === 'number', `quorum:${quorum}`);
  add(extendQuorumOffset !== 0, `extension-votes:${extendQuorumOffset}`);
  if (driftPpm < 0) names.push('drift-added');
  else add(driftUs < 0, 'drift-constant-added');
  add(stampUs !== 1, `stamps-us:${stampUs}`);
  add(fields.extensionCheck === 'none' && validityCheck !== 'none', 'extension-unchecked');
  const isCounted = deadline === 'relative' || validityCheck === 'unsigned';
  if (deadline === 'whole-ttl') names.push('deadline-whole-ttl');
  else if (isCounted) names.push(`deadline-counted-after-us:${deadline === 'relative' ? deadlineLagUs : 0}`);
  else add(stampUs !== 1, `deadline-stamps-us:${stampUs}`);
  const isEarly = fields.settle !== 'all' && (fields.releaseSending ?? 'parallel') === 'parallel';
  add(!isEarly, 'release-awaits-all');
  add(fields.cleanupAwaited, isEarly ? 'awaits-clean-up' : 'awaits-whole-clean-up');
  add(fields.extendOnlyInTime === false, fields.extendStartsInTime ? 'extends-if-begun-in-time' : 'extends-late');
  add(fields.lossSignal === 'after-reply', 'loss-noticed-at-failure');
  add(fields.onlyIfAbsent !== false && fields.ownKeyGrants, fields.ownKeyRenews ? 'own-key-renews' : 'own-key-grants');
  add(['max', 'sum', 'min'].includes(fencing), 'grants-count');
  add(fields.releaseChecksToken === false && (fields.releaseSteps ?? 'one') === 'one', 'deletes-any');
  return names;
}

/** `base` with these fields in place of its own. */
export function policyWithFields(change: PolicyFields, base: Policy): Policy {
  const fields: PolicyFields = { ...fieldsOf(base), ...change };
  const { clock, tokenFrom, nodesFrom, beliefEnds, driftPpm = 0, driftUs = 0, fencing = 'none' } = fields;
  const chosen = Object.keys(REFERENCE.settings).flatMap((it) => {
    const value = fields[it as keyof PolicyFields];
    return value === undefined ? [] : [[it, value]];
  });
  return policyWith(
    {
      settings: {
        ...(Object.fromEntries(chosen) as Partial<Settings>),
        driftPpm: Math.abs(driftPpm),
        driftUs: driftPpm < 0 ? -driftUs : Math.abs(driftUs),
        fencing: !['none', 'max', 'sum', 'min'].includes(fencing),
      },
      deviations: deviationsOf(fields),
      habits: {
        ...base.habits,
        ...(clock === undefined ? {} : { clock }),
        ...(tokenFrom === undefined ? {} : { tokenFrom }),
        ...(nodesFrom === undefined ? {} : { nodesFrom }),
        ...(beliefEnds === undefined ? {} : { beliefEnds }),
        tokenPerProcess: fields.tokenScope === 'instance',
      },
    },
    base,
  );
}

/** The fields of rules that are sound. */
const SOUND_FIELDS: PolicyFields = {
  quorum: 'majority',
  sending: 'parallel',
  settle: 'early',
  onNodeError: 'no-vote',
  grantReadAs: 'yes',
  stampUs: 1,
  deadline: 'absolute',
  deadlineLagUs: 0,
  validityFrom: 'attempt',
  driftWholeMs: true,
  validityCheck: 'positive',
  tokenScope: 'attempt',
  onlyIfAbsent: true,
  keyExpiry: 'ttl',
  ownKeyGrants: false,
  ownKeyRenews: false,
  retryPauses: true,
  pausesAfterLast: false,
  cleanup: 'all',
  cleanupAfter: 'each-attempt',
  cleanupAwaited: false,
  givesUpOn: 'nothing',
  releasesLateGrants: true,
  releaseChecksToken: true,
  releaseSteps: 'one',
  releaseSending: 'parallel',
  releaseRule: 'best-effort',
  releaseTo: 'all',
  extendCommand: 'own',
  extendReadAs: 'answer',
  extendQuorumOffset: 0,
  extendFrom: 'start',
  extensionCheck: 'validity',
  extendOnlyInTime: true,
  extendStartsInTime: false,
  extendOnFail: 'keep',
  autoExtendLate: 'at-once',
  lossSignal: 'local-timer',
  rejoin: 'copy',
};

/** The fields of a policy. */
export function fieldsOf({ settings, deviations, habits }: Policy): PolicyFields {
  const { tokenPerProcess, ...rest } = habits;
  const { fencing, ...chosen } = settings;
  return Object.assign(
    { ...SOUND_FIELDS, ...chosen, ...rest, fencing: fencing ? 'quorum' : 'none' },
    ...deviations.map((it) => fieldsOfOne(it, settings)),
    tokenPerProcess ? { tokenScope: 'instance' } : {},
  );
}

function fieldsOfOne(reference: string, { driftPpm, driftUs }: Settings): PolicyFields {
  const { name, number } = parseDeviation(reference);
  switch (name) {
    case 'quorum':
      return { quorum: number };
    case 'extension-votes':
      return { extendQuorumOffset: number };
    case 'drift-added':
      return { driftPpm: -driftPpm, driftUs: -driftUs };
    case 'drift-constant-added':
      return { driftUs: -driftUs };
    case 'stamps-us':
    case 'deadline-stamps-us':
      return { stampUs: number };
    case 'deadline-counted-after-us':
      return { deadline: 'relative', deadlineLagUs: number };
    default:
      return OTHERS[name] ?? FIELD_OF.get(name) ?? {};
  }
}

/** What is more than one field, or none of {@link NAMES}. */
const OTHERS: Readonly<Record<string, PolicyFields>> = {
  'validity-unchecked': { validityCheck: 'none', extensionCheck: 'none' },
  'extension-unchecked': { extensionCheck: 'none' },
  'deadline-whole-ttl': { deadline: 'whole-ttl' },
  'awaits-clean-up': { cleanupAwaited: true },
  'awaits-whole-clean-up': { cleanupAwaited: true },
  'extends-late': { extendOnlyInTime: false },
  'extends-if-begun-in-time': { extendOnlyInTime: false, extendStartsInTime: true },
  'loss-noticed-at-failure': { lossSignal: 'after-reply' },
  'own-key-grants': { ownKeyGrants: true },
  'own-key-renews': { ownKeyGrants: true, ownKeyRenews: true },
  'deletes-any': { releaseChecksToken: false },
};

/** Values that are no texts. */
const VALUES: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['false', false],
]);

/** The field that makes a deviation, where it is one. */
const FIELD_OF: ReadonlyMap<string, PolicyFields> = new Map(
  Object.entries(NAMES)
    .flatMap(([field, names]) =>
      Object.entries(names).map(([value, name]) => [name, { [field]: VALUES.get(value) ?? value }] as const),
    )
    .reverse(),
);
