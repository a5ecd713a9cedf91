import { type Rules, SOUND } from '../core/index.js';
import type { Deviation } from './deviation.js';
import { EXTENSIONS } from './extensions.js';
import { FENCING } from './fencing.js';
import { KEYS } from './keys.js';
import { RELEASES } from './releases.js';
import { VALIDITY } from './validity.js';
import { VOTES } from './votes.js';

/**
 * Everything that known clients and planted bugs do otherwise, by name. Where two stand on one rule, the later one here
 * stands on the earlier one, so that a list of names is a set.
 */
export const DEVIATIONS: Readonly<Record<string, Deviation>> = {
  ...VOTES,
  ...VALIDITY,
  ...RELEASES,
  ...EXTENSIONS,
  ...KEYS,
  ...FENCING,
};

const ORDER: readonly string[] = Object.keys(DEVIATIONS);

/** The deviation of this name. Throws a `RangeError` if there is none. */
export function checkDeviation(name: string): Deviation {
  const deviation = Object.hasOwn(DEVIATIONS, name) ? DEVIATIONS[name] : undefined;
  if (deviation === undefined) throw new RangeError(`there is no deviation ${name}`);
  return deviation;
}

/**
 * A deviation by `name` or `name:number`, and its number.
 *
 * @throws RangeError for a name that there is not, and for a number that it cannot have.
 */
export function parseDeviation(reference: string): { name: string; deviation: Deviation; number: number } {
  const [name = '', ...rest] = reference.split(':');
  const deviation = checkDeviation(name);
  const [least, most] = deviation.range ?? [0, 0];
  const text = rest.join(':');
  const number = Number(text);
  if (deviation.range === null && rest.length > 0) throw new RangeError(`${reference}: write ${name} without a number`);
  if (deviation.range !== null && (!/^-?\d+$/.test(text) || number < least || number > most))
    throw new RangeError(`${reference}: write ${name}:<whole number from ${least} to ${most}>`);
  return { name, deviation, number };
}

/** Deviations in the order in which they stand on each other. */
export function inOrder(references: readonly string[]): string[] {
  const place = (reference: string): number => ORDER.indexOf(parseDeviation(reference).name);
  return references.toSorted((a, b) => place(a) - place(b));
}

/**
 * The rules of a client with these deviations, each written `name` or `name:number`.
 *
 * @throws RangeError for one that there is not, and for one that would undo another.
 */
export function rulesOf(references: readonly string[]): Rules {
  const list = inOrder(references).map(parseDeviation);
  let rules = table({});
  const changed = new Map<string, string>();
  for (const { name, deviation, number } of list) {
    const other = changed.get(deviation.place);
    if (other !== undefined && (other === name || !deviation.wraps))
      throw new RangeError(`${name} would undo ${other}: both are about ${deviation.place}`);
    changed.set(deviation.place, name);
    rules = table({ ...rules, [deviation.rule]: deviation.apply(rules, number) });
  }
  return rules;
}

/** All tables are made here, so that the engine takes them for one shape: mixed ones make a step a quarter slower. */
function table(change: Partial<Rules>): Rules {
  const all = { ...SOUND, ...change };
  return {
    quorum: all.quorum,
    read: all.read,
    settle: all.settle,
    next: all.next,
    quits: all.quits,
    token: all.token,
    allowance: all.allowance,
    from: all.from,
    left: all.left,
    enough: all.enough,
    deadline: all.deadline,
    alarm: all.alarm,
    pause: all.pause,
    pausesAfter: all.pausesAfter,
    releaseTo: all.releaseTo,
    freed: all.freed,
    releasesLate: all.releasesLate,
    mayExtend: all.mayExtend,
    afterFailure: all.afterFailure,
    autoExtend: all.autoExtend,
    keyLife: all.keyLife,
    scripts: all.scripts,
    fencing: all.fencing,
  };
}
