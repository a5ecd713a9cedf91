import type { Rules } from '../core/index.js';

/** One thing that clients do otherwise than the sound lock: another form of one rule. */
export interface Deviation {
  /** What a client with it does. */
  readonly says: string;
  readonly rule: keyof Rules;
  /** What it changes: its rule, or `scripts.acquire` and the like where that has parts. */
  readonly place: string;
  /** Whether it asks the rule that it stands on, and so may stand on another deviation of that place. */
  readonly wraps: boolean;
  /** Its number, written `name:number`, is from the first to the second; `null` where it has none. */
  readonly range: readonly [least: number, most: number] | null;
  /** Its form of the rule, on top of `below`. */
  readonly apply: (below: Rules, number: number) => Rules[keyof Rules];
}

/** Another form of a rule, whatever was there. */
export function replaces<R extends keyof Rules>(rule: R, says: string, form: Rules[R]): Deviation {
  return { says, rule, place: rule, wraps: false, range: null, apply: () => form };
}

/** A rule that changes a part of what the one below it says. */
export function wraps<R extends keyof Rules>(rule: R, says: string, apply: (below: Rules) => Rules[R]): Deviation {
  return { says, rule, place: rule, wraps: true, range: null, apply };
}

/** Another form of a rule, with a number of a range. */
export function numbered<R extends keyof Rules>(
  rule: R,
  says: string,
  range: readonly [least: number, most: number],
  apply: (number: number) => Rules[R],
): Deviation {
  return { says, rule, place: rule, wraps: false, range, apply: (_below, number) => apply(number) };
}
