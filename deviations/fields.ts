import {
  type FencingToken,
  type LockPolicy,
  type Rules,
  type Settings,
  SOUND,
  type Token,
  votesWanted,
} from '../core/index.js';
import { checkDeviation, parseDeviation, rulesOf } from './catalogue.js';
import type { Policy } from './policy.js';

/*
 * What a policy that is written field by field comes to: settings, and the names of deviations.
 */

type Names = Readonly<Record<string, string>>;

/** By field, and by its value. */
export const NAMES: Readonly<Partial<Record<keyof Policy, Names>>> = {
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

const FIELDS = Object.entries(NAMES).map(([field, names]) => ({
  field: field as keyof Policy,
  names: new Map(Object.entries(names)),
}));

/** The deviations of a policy that is written field by field. */
export function deviationsOf(policy: Policy): string[] {
  const list: string[] = [];
  for (const { field, names } of FIELDS) {
    const name = names.get(String(policy[field]));
    if (name !== undefined) list.push(name);
  }
  return list.concat(ofSeveralFields(policy));
}

/** Those that more than one field makes, or a number. */
function ofSeveralFields(policy: Policy): string[] {
  const { deadline, driftPpm, driftUs, extendQuorumOffset, quorum, stampUs, validityCheck } = policy;
  const names: string[] = [];
  const add = (when: boolean, name: string): void => void (when && names.push(name));
  add(typeof quorum === 'number', `quorum:${quorum}`);
  add(extendQuorumOffset !== 0, `extension-votes:${extendQuorumOffset}`);
  if (driftPpm < 0) names.push('drift-added');
  else add(driftUs < 0, 'drift-constant-added');
  add(stampUs !== 1, `stamps-us:${stampUs}`);
  add(policy.extensionCheck === 'none' && validityCheck !== 'none', 'extension-unchecked');
  const isCounted = deadline === 'relative' || validityCheck === 'unsigned';
  if (deadline === 'whole-ttl') names.push('deadline-whole-ttl');
  else if (isCounted) names.push(`deadline-counted-after-us:${deadline === 'relative' ? policy.deadlineLagUs : 0}`);
  else add(deadline === 'absolute' && stampUs !== 1, `deadline-stamps-us:${stampUs}`);
  const isEarly = policy.settle !== 'all' && policy.releaseSending === 'parallel';
  add(!isEarly, 'release-awaits-all');
  add(policy.cleanupAwaited, isEarly ? 'awaits-clean-up' : 'awaits-whole-clean-up');
  add(!policy.extendOnlyInTime, policy.extendStartsInTime ? 'extends-if-begun-in-time' : 'extends-late');
  add(policy.lossSignal === 'after-reply', 'loss-noticed-at-failure');
  const grantsOwn = policy.onlyIfAbsent && policy.ownKeyGrants;
  add(grantsOwn, policy.ownKeyRenews ? 'own-key-renews' : 'own-key-grants');
  add(['max', 'sum', 'min'].includes(policy.fencing), 'grants-count');
  add(!policy.releaseChecksToken && policy.releaseSteps === 'one', 'deletes-any');
  return names;
}

/** The settings of a policy that is written field by field. */
export function settingsOf(policy: Policy): Settings {
  const adds = policy.driftPpm < 0;
  return {
    votesWanted: policy.votesWanted,
    nodeTimeoutUs: policy.nodeTimeoutUs,
    driftPpm: Math.abs(policy.driftPpm),
    driftUs: adds ? -policy.driftUs : Math.abs(policy.driftUs),
    minValidityUs: policy.minValidityUs,
    tries: policy.tries,
    acquireTimeoutUs: policy.acquireTimeoutUs,
    retryDelayUs: policy.retryDelayUs,
    retryJitterUs: policy.retryJitterUs,
    releaseTries: policy.releaseTries,
    maxExtensions: policy.maxExtensions,
    autoExtendAtUs: policy.autoExtendAtUs,
    autoExtendAtPpm: policy.autoExtendAtPpm,
    autoExtendSpacingUs: policy.autoExtendSpacingUs,
    lockDelayMs: policy.lockDelayMs,
    fencing: !['none', 'max', 'sum', 'min'].includes(policy.fencing),
  };
}

/** What clients with the same deviations share. */
interface Table {
  readonly rules: Rules;
  /** Whether they have a deviation of a name, as far as that was asked. */
  readonly known: Map<string, boolean>;
}

const tables = new Map<string, Table>([['', { rules: SOUND, known: new Map() }]]);

const made = new WeakMap<Policy, { readonly lock: LockPolicy; readonly table: Table }>();

function make(policy: Policy): { readonly lock: LockPolicy; readonly table: Table } {
  const names = deviationsOf(policy);
  const key = names.join();
  let table = tables.get(key);
  if (table === undefined) {
    table = { rules: rulesOf(names), known: new Map(names.map((it) => [parseDeviation(it).name, true])) };
    tables.set(key, table);
  }
  const both = { lock: { settings: settingsOf(policy), rules: table.rules }, table };
  made.set(policy, both);
  return both;
}

/** What the lock of a client with this policy is run by. */
export function lockPolicyOf(policy: Policy): LockPolicy {
  return (made.get(policy) ?? make(policy)).lock;
}

/**
 * Whether a client with this policy has a deviation of this name, or one of several, whatever the number of a numbered one.
 *
 * @throws RangeError for a name that the catalogue does not have.
 */
export function deviates(policy: Policy, ...names: readonly string[]): boolean {
  const { known } = (made.get(policy) ?? make(policy)).table;
  return names.some((name) => {
    const answer = known.get(name);
    if (answer !== undefined) return answer;
    checkDeviation(name);
    known.set(name, false);
    return false;
  });
}

/** Whether the releases of a lock are sent one after the other, each when the node before it has answered. */
export function releasesInTurn(policy: Policy): boolean {
  return deviates(policy, 'releases-in-turn', 'releases-until-error');
}

/** Whether locks come with fencing tokens of any kind. */
export function hasFencingTokens(policy: Policy): boolean {
  return lockPolicyOf(policy).settings.fencing || deviates(policy, 'grants-count');
}

/** Votes that make a lock on `nodes` nodes under `policy`. */
export function quorumOf(policy: Policy, nodes: number): number {
  return lockPolicyOf(policy).rules.quorum(nodes, 'acquire');
}

/** Votes to wait for on `nodes` nodes under `policy`: at most `nodes`, at least the quorum, whatever that is. */
export function votesWantedOf(policy: Policy, nodes: number): number {
  return votesWanted(lockPolicyOf(policy), nodes);
}

/** The clock-drift allowance D for a TTL under `policy`, µs. */
export function driftAllowanceUs(policy: Policy, ttlUs: number): number {
  const { rules, settings } = lockPolicyOf(policy);
  return rules.allowance(ttlUs, settings);
}

/** The fencing token that `policy` makes of a counter and the attempt's token; `null` where it has none. */
export function fencingTokenOf(policy: Policy, counter: number, attempt: Token | null): FencingToken | null {
  const { rules, settings } = lockPolicyOf(policy);
  return rules.fencing.token(settings, counter, attempt);
}
