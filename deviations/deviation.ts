import type { Rules } from '../core/index.js';

/** One thing that clients do otherwise than the sound lock: another form of one rule. */
export interface Deviation {
  /** What a client with it does. */
  readonly says: string;
  readonly rule: keyof Rules;
  /** Whether it asks the rule that it stands on, and so may stand on another deviation of that rule. */
  readonly wraps: boolean;
  /** Whether it has a number, written `name:number`. */
  readonly numbered: boolean;
  /** Its form of the rule, on top of `below`. */
  readonly apply: (below: Rules, number: number) => Rules[keyof Rules];
}

/** Another form of a rule, whatever was there. */
export function replaces<R extends keyof Rules>(rule: R, says: string, form: Rules[R]): Deviation {
  return { says, rule, wraps: false, numbered: false, apply: () => form };
}

/** A rule that changes a part of what the one below it says. */
export function wraps<R extends keyof Rules>(rule: R, says: string, apply: (below: Rules) => Rules[R]): Deviation {
  return { says, rule, wraps: true, numbered: false, apply };
}

/** The same, with a number. */
export function numbered<R extends keyof Rules>(
  rule: R,
  says: string,
  apply: (below: Rules, number: number) => Rules[R],
): Deviation {
  return { says, rule, wraps: true, numbered: true, apply };
}
