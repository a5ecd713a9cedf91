import {
  type Drift,
  type FencingToken,
  type LockPolicy,
  type Rules,
  SOUND,
  type Token,
  votesWanted,
} from '../core/index.js';
import { checkDeviation, parseDeviation, rulesOf } from './catalogue.js';
import type { Policy } from './policy.js';

/*
 * What a policy comes to.
 */

/** What clients with the same deviations share. */
interface Table {
  readonly rules: Rules;
  /** Whether they have a deviation of a name, as far as that was asked. */
  readonly known: Map<string, boolean>;
}

const tables = new Map<string, Table>([['', { rules: SOUND, known: new Map() }]]);

/** What the lock of a policy is run by, and what its deviations are known to be. */
interface Read {
  readonly lock: LockPolicy;
  readonly table: Table;
}

const made = new WeakMap<Policy, Read>();

/** The policy that was asked about last, and what it comes to: nearly always the next question is about the same. */
let last: Policy | null = null;
let lastRead: Read | null = null;

function read(policy: Policy): Read {
  if (policy === last && lastRead !== null) return lastRead;
  const found = made.get(policy) ?? make(policy);
  last = policy;
  lastRead = found;
  return found;
}

function make(policy: Policy): Read {
  const { deviations, settings } = policy;
  const key = deviations.join();
  let table = tables.get(key);
  if (table === undefined) {
    table = { rules: rulesOf(deviations), known: new Map(deviations.map((it) => [parseDeviation(it).name, true])) };
    tables.set(key, table);
  }
  const both = { lock: { settings, rules: table.rules }, table };
  made.set(policy, both);
  return both;
}

/** What the lock of a client with this policy is run by. */
export function lockPolicyOf(policy: Policy): LockPolicy {
  return read(policy).lock;
}

/**
 * Whether a client with this policy has a deviation of this name, or one of several, whatever the number of a numbered one.
 *
 * @throws RangeError for a name that the catalogue does not have.
 */
export function deviates(policy: Policy, ...names: readonly string[]): boolean {
  const { known } = read(policy).table;
  for (const name of names) {
    let answer = known.get(name);
    if (answer === undefined) {
      checkDeviation(name);
      known.set(name, false);
      answer = false;
    }
    if (answer) return true;
  }
  return false;
}

/** The number of a deviation in a policy, such as 1000 of `stamps-us:1000`; `undefined` where it does not have it. */
export function deviationNumber({ deviations }: Policy, name: string): number | undefined {
  const reference = deviations.find((it) => it.startsWith(`${name}:`));
  return reference === undefined ? undefined : parseDeviation(reference).number;
}

/** Whether the releases of a lock are sent one after the other, each when the node before it has answered. */
export function releasesInTurn(policy: Policy): boolean {
  return deviates(policy, 'releases-in-turn', 'releases-until-error');
}

/** Whether locks come with fencing tokens of any kind. */
export function hasFencingTokens(policy: Policy): boolean {
  return policy.settings.fencing || deviates(policy, 'grants-count');
}

/** Votes that make a lock on `nodes` nodes under `policy`. */
export function quorumOf(policy: Policy, nodes: number): number {
  return lockPolicyOf(policy).rules.quorum(nodes, 'acquire');
}

/** Votes to wait for on `nodes` nodes under `policy`: at most `nodes`, at least the quorum, whatever that is. */
export function votesWantedOf(policy: Policy, nodes: number): number {
  return votesWanted(lockPolicyOf(policy), nodes);
}

/** The drift allowance in numbers, which are negative where it is added to the validity. */
export function statedDrift(policy: Policy): Drift {
  const { driftPpm, driftUs } = policy.settings;
  const adds = deviates(policy, 'drift-added');
  return {
    driftPpm: adds ? -driftPpm : driftPpm,
    driftUs: adds || deviates(policy, 'drift-constant-added') ? -driftUs : driftUs,
  };
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
