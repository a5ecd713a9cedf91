import type { Settings } from '../core/index.js';
import { parseDeviation } from './catalogue.js';
import { deviationsOf, NAMES } from './fields.js';
import { type Habits, type Policy, REFERENCE } from './policy.js';

/** Fields of a policy, to be written to. */
export type Fields = { -readonly [Field in Exclude<keyof Policy, 'profile'>]?: Policy[Field] };

/** A client: what it chooses, what it does otherwise than the sound lock, and its habits. */
export interface Client {
  readonly settings?: Partial<Omit<Settings, 'fencing'>>;
  /** Names in the catalogue of deviations, `name` or `name:number`. */
  readonly deviations: readonly string[];
  /** `tokenPerProcess`: one token as long as the process lives. */
  readonly habits?: Partial<Habits> & { readonly tokenPerProcess?: true };
}

/**
 * A client as a policy with one field for each choice.
 *
 * @throws RangeError if the fields come to other deviations than those that are named.
 */
export function policyOfClient(profile: string, { settings = {}, deviations, habits = {} }: Client): Policy {
  const { tokenPerProcess, ...rest } = habits;
  const chosen: Policy = { ...REFERENCE, ...settings };
  const fields = fieldsOf(deviations, chosen);
  if (tokenPerProcess) fields.tokenScope = 'instance';
  const policy: Policy = { ...chosen, ...fields, ...rest, profile };
  const found = deviationsOf(policy);
  const differing = [
    ...found.filter((it) => !deviations.includes(it)),
    ...deviations.filter((it) => !found.includes(it)),
  ];
  if (differing.length > 0)
    throw new RangeError(`${profile}: its fields do not come to ${differing.join(', ')} as named`);
  return Object.freeze(policy);
}

/** Values of fields that are no texts. */
const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['false', false],
]);

/** The field that makes a deviation, where it is one. The first of several values is the one that it stands for. */
const FIELD_OF: ReadonlyMap<string, Partial<Policy>> = new Map(
  Object.entries(NAMES)
    .flatMap(([field, names]) =>
      Object.entries(names).map(([value, name]) => [name, { [field]: FLAGS.get(value) ?? value }] as const),
    )
    .reverse(),
);

/** The fields that deviations change in a policy, each written `name` or `name:number`. */
export function fieldsOf(references: readonly string[], base: Policy = REFERENCE): Fields {
  return Object.assign({}, ...references.map((reference) => fieldsOfOne(reference, base)));
}

function fieldsOfOne(reference: string, base: Policy): Partial<Policy> {
  const { name, number } = parseDeviation(reference);
  switch (name) {
    case 'quorum':
      return { quorum: number };
    case 'extension-votes':
      return { extendQuorumOffset: number };
    case 'drift-added':
      return { driftPpm: -base.driftPpm, driftUs: -base.driftUs };
    case 'drift-constant-added':
      return { driftUs: -base.driftUs };
    case 'stamps-us':
    case 'deadline-stamps-us':
      return { stampUs: number };
    case 'deadline-counted-after-us':
      return { deadline: 'relative', deadlineLagUs: number };
    default:
      return OTHERS[name] ?? FIELD_OF.get(name) ?? {};
  }
}

/** What is more than one field, or one of those above. */
const OTHERS: Readonly<Record<string, Partial<Policy>>> = {
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
