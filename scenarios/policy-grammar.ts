import { LONGEST_US, MOST_NODES, type Settings } from '../core/index.js';
import type { ClientTiming, Habits, PolicyChoice } from '../deviations/index.js';
import { exactly } from './exactly.js';
import {
  countOr,
  flag,
  from,
  list,
  MICROS,
  maybe,
  oneOf,
  orNull,
  record,
  SHIFT,
  text,
  whole,
  wrong,
} from './grammar-parts.js';
import * as z from './zod.js';

/*
 * The form of a policy in a schedule. Names of profiles and deviations are in checks.ts.
 */

const DELAY = { low: 0, high: LONGEST_US / 1000, right: 'a whole number of milliseconds from 0' };
const SHARE = { low: 0, high: 1_000_000, right: 'a whole number of parts per million from 0 to 1000000' };

const settingFields = {
  votesWanted: maybe(countOr(1, MOST_NODES, 'quorum', 'all')),
  nodeTimeoutUs: maybe(orNull(MICROS, 'to wait for ever')),
  driftPpm: maybe(whole(SHARE)),
  driftUs: maybe(whole(SHIFT)),
  minValidityUs: maybe(whole(MICROS)),
  tries: maybe(orNull(from(1), 'to try for ever')),
  acquireTimeoutUs: maybe(orNull(MICROS, 'for no limit')),
  retryDelayUs: maybe(whole(MICROS)),
  retryJitterUs: maybe(whole(MICROS)),
  releaseTries: maybe(orNull(from(1), 'to try for ever')),
  maxExtensions: maybe(orNull(from(0), 'for no limit')),
  autoExtendAtUs: maybe(orNull(MICROS, 'to never extend by itself')),
  autoExtendAtPpm: maybe(orNull(SHARE, 'to not go by a share')),
  autoExtendSpacingUs: maybe(whole(MICROS)),
  lockDelayMs: maybe(whole(DELAY)),
  fencing: maybe(flag()),
};

/** Each setting, for those who know more fields. */
export const SETTING_FIELDS: z.core.$ZodLooseShape = settingFields;

const settings = exactly<Partial<Settings>>()(record('the settings', settingFields));

const clock = () => maybe(oneOf('boot', 'monotonic', 'wall'));

const habitFields = {
  nodesFrom: maybe(oneOf('configured', 'connected')),
  clock: clock(),
  tokenFrom: maybe(oneOf('random', 'clock', 'clock-us')),
  tokenPerProcess: maybe(flag()),
  beliefEnds: maybe(oneOf('at-release', 'after-release')),
};

/** Each habit. */
export const HABIT_FIELDS: z.core.$ZodLooseShape = habitFields;

const habits = exactly<Partial<Habits>>()(record('the habits', habitFields));

/** Grammar of the policy of a schedule. */
export const policyChoice: z.ZodType<PolicyChoice> = exactly<PolicyChoice>()(
  record('a policy', {
    profile: text('the name of a profile'),
    settings: maybe(settings),
    deviations: maybe(list(text('the name of a deviation'), 'a list of names of deviations')),
    habits: maybe(habits),
  }),
);

const deadline = 'the name of a deviation of the deadline, or null for the sound one';

/** Grammar of what one client has for itself. */
export const timing: z.ZodType<ClientTiming> = exactly<ClientTiming>()(
  record('a timing', {
    clock: clock(),
    deadline: maybe(z.union([text(deadline), z.null()], { error: wrong(deadline) })),
  }),
);
