import { DEFAULT_SETTINGS, type Settings } from '../core/index.js';
import { inOrder, parseDeviation } from './catalogue.js';

/**
 * What a client's process does around its lock, and no rule of the lock: which nodes and clock it goes by, where its tokens
 * come from, and when it stops to believe.
 */
export interface Habits {
  /**
   * Which nodes a client counts: all that it is given, or those that it has a connection to as it asks for the lock
   * (`connected`: redlock-cpp, redlock-py before its pull request 6).
   */
  readonly nodesFrom: 'configured' | 'connected';
  /**
   * The clock of its process that a client reads. `boot` never jumps and counts the time in which the machine was
   * suspended (CLOCK_BOOTTIME; or monotonic time checked against the time since boot, as this project's client does).
   * `monotonic` stops in that time (CLOCK_MONOTONIC on Linux: redsync, pottery, aioredlock, rslock). `wall` can
   * be set (`Date.now`, `microtime`, `Time.now`: node-redlock, redlock-php, antirez/redlock-rb).
   */
  readonly clock: 'boot' | 'monotonic' | 'wall';
  /**
   * Where tokens come from: `random` ones are unique, the `clock`'s are the millisecond, those of `clock-us` the
   * microsecond (`uniqid` of redlock-php).
   */
  readonly tokenFrom: 'random' | 'clock' | 'clock-us';
  /**
   * Whether one token serves as long as the process lives (redis-semaphore), so that a late release can delete the key of
   * a later lock.
   */
  readonly tokenPerProcess: boolean;
  /** When the owner stops believing: as it calls release, or only when release has returned. */
  readonly beliefEnds: 'at-release' | 'after-release';
}

/**
 * Every choice on which Redlock clients differ, as plain data. A *profile* is a named policy with its sources; a *planted
 * bug* is a policy with one deviation, setting or habit changed. {@link REFERENCE} is the redis.io algorithm with the rules
 * that published analyses showed to be necessary.
 */
export interface Policy {
  /** Name of the profile this value started from. */
  readonly profile: string;
  readonly settings: Settings;
  /** What it does otherwise than the sound lock, in the order of the catalogue: each `name` or `name:number`. */
  readonly deviations: readonly string[];
  readonly habits: Habits;
}

/** What differs from a policy. What is left out is as there. */
export interface PolicyChange {
  readonly settings?: Partial<Settings>;
  /** All deviations, in any order: they take the place of those of the other policy. */
  readonly deviations?: readonly string[];
  readonly habits?: Partial<Habits>;
}

/** The sound policy: what `lockstep`'s own lock runs with its default settings. */
export const REFERENCE: Policy = Object.freeze<Policy>({
  profile: 'reference',
  settings: DEFAULT_SETTINGS,
  deviations: Object.freeze([]),
  habits: Object.freeze<Habits>({
    nodesFrom: 'configured',
    clock: 'boot',
    tokenFrom: 'random',
    tokenPerProcess: false,
    beliefEnds: 'at-release',
  }),
});

/** `base` with this change, whose deviations come beside those that it has, or in place of what they would undo. */
export function policyPlus(change: PolicyChange, base: Policy = REFERENCE): Policy {
  const { deviations = [], ...rest } = change;
  const taken = deviations.flatMap((it) => replacedBy(it) ?? []);
  const kept = base.deviations.filter((it) => !taken.includes(replacedBy(it) ?? ''));
  return policyWith({ ...rest, deviations: [...new Set([...kept, ...deviations])] }, base);
}

/** The place that a deviation has for itself; `null` for one that stands on others. */
function replacedBy(reference: string): string | null {
  const { deviation } = parseDeviation(reference);
  return deviation.wraps ? null : deviation.place;
}

/** The policy of a known client: the sound one with this change, under its name. */
export function policyOfClient(profile: string, change: PolicyChange): Policy {
  return policyWith(change, { ...REFERENCE, profile });
}

/** `base` with this change. */
export function policyWith({ settings, deviations, habits }: PolicyChange, base: Policy = REFERENCE): Policy {
  return Object.freeze<Policy>({
    profile: base.profile,
    settings: settings === undefined ? base.settings : Object.freeze({ ...base.settings, ...settings }),
    deviations: deviations === undefined ? base.deviations : Object.freeze(inOrder(deviations)),
    habits: habits === undefined ? base.habits : Object.freeze({ ...base.habits, ...habits }),
  });
}
