import { LONGEST_US, MOST_NODES, type Settings } from '../core/index.js';
import type { ClientTiming, Habits, PolicyChoice } from '../deviations/index.js';
import { exactly } from './exactly.js';
import {
  countOr,
  flag,
  from,
  list,
  MICROS,
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
  votesWanted: countOr(1, MOST_NODES, 'quorum', 'all').exactOptional(),
  nodeTimeoutUs: orNull(MICROS, 'to wait for ever').exactOptional(),
  driftPpm: whole(SHARE).exactOptional(),
  driftUs: whole(SHIFT).exactOptional(),
  minValidityUs: whole(MICROS).exactOptional(),
  tries: orNull(from(1), 'to try for ever').exactOptional(),
  acquireTimeoutUs: orNull(MICROS, 'for no limit').exactOptional(),
  retryDelayUs: whole(MICROS).exactOptional(),
  retryJitterUs: whole(MICROS).exactOptional(),
  releaseTries: orNull(from(1), 'to try for ever').exactOptional(),
  maxExtensions: orNull(from(0), 'for no limit').exactOptional(),
  autoExtendAtUs: orNull(MICROS, 'to never extend by itself').exactOptional(),
  autoExtendAtPpm: orNull(SHARE, 'to not go by a share').exactOptional(),
  autoExtendSpacingUs: whole(MICROS).exactOptional(),
  lockDelayMs: whole(DELAY).exactOptional(),
  fencing: flag().exactOptional(),
};

/** Each setting, for those who know more fields. */
export const SETTING_FIELDS: z.core.$ZodLooseShape = settingFields;

const settings = exactly<Partial<Settings>>()(record('the settings', settingFields));

const clock = () => oneOf('boot', 'monotonic', 'wall').exactOptional();

const habitFields = {
  nodesFrom: oneOf('configured', 'connected').exactOptional(),
  clock: clock(),
  tokenFrom: oneOf('random', 'clock', 'clock-us').exactOptional(),
  tokenPerProcess: flag().exactOptional(),
  beliefEnds: oneOf('at-release', 'after-release').exactOptional(),
};

/** Each habit. */
export const HABIT_FIELDS: z.core.$ZodLooseShape = habitFields;

const habits = exactly<Partial<Habits>>()(record('the habits', habitFields));

/** Grammar of the policy of a schedule. */
export const policyChoice: z.ZodType<PolicyChoice> = exactly<PolicyChoice>()(
  record('a policy', {
    profile: text('the name of a profile'),
    settings: settings.exactOptional(),
    deviations: list(text('the name of a deviation'), 'a list of names of deviations').exactOptional(),
    habits: habits.exactOptional(),
  }),
);

const deadline = 'the name of a deviation of the deadline, or null for the sound one';

/** Grammar of what one client has for itself. */
export const timing: z.ZodType<ClientTiming> = exactly<ClientTiming>()(
  record('a timing', {
    clock: clock(),
    deadline: z.union([text(deadline), z.null()], { error: wrong(deadline) }).exactOptional(),
  }),
);
