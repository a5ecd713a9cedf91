import { isPlainObject } from './plain-data.js';
import type { PropertyId } from './scenario.js';
import type { Fault } from './schedule.js';

/*
 * What version 0.1 called otherwise in schedules and scenarios. All of it goes with the version after this one.
 */

/** Properties, by their names in 0.1. */
export const PROPERTIES_OF_0_1: Readonly<Record<string, PropertyId>> = {
  validity: 'quorum-backed',
  'action-in-belief': 'no-stale-write',
  'lost-lock': 'loss-notified',
  'release-own': 'owner-only-release',
  'release-quorum': 'release-to-all',
  'token-unique': 'unique-token',
  conservation: 'message-integrity',
};

/** Kinds of faults, by their names in 0.1. */
const FAULTS: Readonly<Record<string, Fault['kind']>> = {
  'clock-rate': 'clock-drift',
  forget: 'data-loss',
  refuse: 'error-replies',
};

const FIELDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  kind: FAULTS,
  property: PROPERTIES_OF_0_1,
};

/** Nothing in a scenario lies deeper: /flips/0/change/0/value/0/kind. */
const MAX_DEPTH = 8;

/** Plain data with the names of today: in each field `kind` that of a fault, in each field `property` that of a property. */
export function withNamesOfToday(value: unknown, depth = 0): unknown {
  if (depth > MAX_DEPTH) return value;
  if (Array.isArray(value)) return value.map((it) => withNamesOfToday(it, depth + 1));
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([field, it]) => {
      const names = Object.hasOwn(FIELDS, field) ? FIELDS[field] : undefined;
      const isOld = names !== undefined && typeof it === 'string' && Object.hasOwn(names, it);
      return [field, isOld ? names[it] : withNamesOfToday(it, depth + 1)];
    }),
  );
}
