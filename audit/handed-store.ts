import { isWork, ownerOf } from './called.js';
import type { Defect } from './defect.js';
import { nameOfPlan, type Plan } from './plan.js';
import { once } from './played.js';
import { heldNow } from './rehearsal.js';
import type { Said } from './said.js';
import { STALE_READ } from './shown-defects.js';
import type { Runnable } from './subject.js';
import { isUnknown, pathOf } from './unknown.js';
import { isQuantity } from './value-names.js';

/** A call of something that a function was handed. */
interface Call {
  readonly name: string;
  /** What it is made of: a table, or what has the method. */
  readonly store: string;
  /** The numbers among its arguments, and in objects among these; and texts to which something was added. */
  readonly parts: readonly (number | string)[];
}

/** What a function calls before it has the lock, and while it has it. */
interface Calls {
  readonly before: readonly Call[];
  readonly held: readonly Call[];
  /** The numbers that it was given before. */
  readonly read: readonly number[];
  /** It asks for the lock with one of them. */
  readonly isAsked: boolean;
  /** It hands on something that it has read before, as a condition of what it stores. */
  readonly isCompared: boolean;
}

/** What a call gives before the lock is held, as a number: by how many calls were before it, and what it is made of. */
type Values = (at: number, store: string) => number;

/** What is read before the lock is this times a power of three, as a number: no sum or difference of two is a third. */
const VALUES = [1_000, 7_000] as const;
const MOST_POWERS = 20;
/** A text that begins with one of them. */
const IS_ADDED = /^\d+000\D/;

/** What is read later is more, or less: a function may return where one value is less than another one. */
const ORDERS: readonly ((at: number) => number)[] = [
  (at) => 3 ** Math.min(at, MOST_POWERS),
  (at) => 3 ** Math.max(MOST_POWERS - at, 0),
];

/** What names a table at the begin of a query, before its call. */
const NAMES_TABLE =
  /^\.?(?:tx|trx|db|knex|database)?$|(?:^|\.)(?:from|into|table|update|updateTable|selectFrom|collection)$/;
const OF_TRANSACTION = /^(?:tx|trx|transaction|session|em)\b/;

/** Which stores calls are of, as each is heard: that of a query is its table. */
function stores(): (given: readonly unknown[], name: string) => string {
  const tables = new Map<string, string>();
  return ([first, ...others], name) => {
    const named =
      NAMES_TABLE.test(name) && others.length === 0 ? (typeof first === 'string' ? first : pathOf(first)) : null;
    const table = named === null ? tables.get(ownerOf(name).slice(0, -1)) : `.${named.replace(/^.*\./, '')}.`;
    if (table === undefined) tables.delete(name);
    else tables.set(name, table);
    // Of a transaction, or of a connection that a pool gives, that is its store.
    const owner = ownerOf(name)
      .replace(OF_TRANSACTION, '')
      .replace(/\.(?:connect|getConnection|reserve)\.$/, '.');
    return table ?? owner;
  };
}

/** Whether what is made of `own` is made of `store`, of which a transaction has the last names alone. */
function isOf(own: string, store: string): boolean {
  return own === store || (/^\../.test(store) && own.endsWith(store));
}

/** What it calls to change a store gives no value of it. */
const CHANGES =
  /(?:^|\.)(?:insert|create|add|append|set|update|save|store|put|write|replace|delete|remove|send|publish|enqueue|begin)(?![a-z])[^.]*$/;
const STORES = /(?:^|\.)(?:set|update|save|store|put|write|replace)[^.]*$/i;

/**
 * Whether a function reads a number from a store that it is handed, before it has the lock, and under the lock stores there what it has
 * made of that. A call that passes the number itself too may compare it (an optimistic update), and is no defect.
 */
export async function staleStore(subject: Runnable, plan: Plan): Promise<Defect | null> {
  for (const order of ORDERS) {
    const one = await callsWith(subject, plan, (at) => VALUES[0] * order(at));
    if (one.isAsked || one.isCompared) return null;
    const stored = one.held.filter(({ name, parts }) => STORES.test(name) && parts.length > 0);
    for (const store of new Set(stored.map((it) => it.store))) {
      const read = one.before.find((it) => it.name !== '' && isOf(it.store, store) && !CHANGES.test(it.name));
      if (read === undefined) continue;
      const value: Values = (at, of) => VALUES[of.includes(store) ? 1 : 0] * order(at);
      if (!storesMade(one, await callsWith(subject, plan, value), store)) continue;
      return {
        ...STALE_READ,
        sentence: `${nameOfPlan(plan)} calls ${read.name.replace(/^\./, '')} ${STALE_READ.sentence}`,
      };
    }
    if (stored.length > 0) return null;
  }
  return null;
}

/** Whether a function stores what it has made of a value that another time is another one. */
function storesMade(one: Calls, two: Calls, store: string): boolean {
  for (const [i, { name, parts, store: own }] of one.held.entries()) {
    const other = two.held[i];
    if (other?.name !== name) return false;
    const isMade = parts.some((it, at) => it !== other.parts[at]) && !parts.some((it) => one.read.includes(Number(it)));
    if (isMade && own === store && STORES.test(name)) return true;
  }
  return false;
}

/**
 * What it calls before it has the lock, and while it has it, where what it reads before is this as a number, and whether it asks for the
 * lock with that: a fencing token rises above what is stored.
 */
async function callsWith(subject: Runnable, plan: Plan, value: Values): Promise<Calls> {
  const { bench } = subject;
  const read: number[] = [];
  const before: Call[] = [];
  const held: Call[] = [];
  const storeOf = stores();
  let isCompared = false;
  let latest = '';
  const heard = (given: readonly unknown[], name: string): void => {
    latest = storeOf(given, name);
    const isHeld = heldNow(bench) !== null;
    const call = { name, store: latest, parts: partsIn(given) };
    if (isHeld && (isWork(name) || SETS.test(name))) held.push(call);
    // What comes after a release belongs to the next lock, if there is one.
    if (!isHeld && held.length === 0) before.push(call);
    isCompared ||= isHeld && (ASKS.test(name) || STORES.test(name)) && passesOn(given, read);
  };
  const number = (): number => {
    if (heldNow(bench) !== null) return 1;
    const next = value(read.length, latest);
    read.push(next);
    return next;
  };
  const { trial } = (await once(subject, plan, { heard, number })) ?? {};
  const isAsked = ({ operation, words }: Said): boolean =>
    operation === 'acquire' && read.some((it) => words.includes(String(it)));
  return { before, held, read, isAsked: trial?.sent.some(isAsked) ?? false, isCompared };
}

/** What gives a query its values, and its conditions. */
const SETS = /\.update\w*\.set$/;
const ASKS = /(?:^|\.)(?:\w*where|eq|filter|match)$/i;
/** What has the values of a change; every other object may have conditions. */
const HAS_VALUES = /^(?:data|set|values|update|\$\w+)$/;
/** What tells whether a record has been changed. */
const TELLS = /version|revision|\brev$|etag|updated|modified|status|state/i;

/** Whether something that was read before is among these, by a name of what tells whether its record has been changed since. */
function passesOn(given: readonly unknown[], read: readonly number[], depth: number = 3): boolean {
  return given.some((it) => {
    if (isUnknown(it)) {
      const [name = ''] = pathOf(it)?.match(/\w+$/) ?? [];
      return (TELLS.test(name) || isQuantity(name)) && read.includes(Number(it));
    }
    if (typeof it !== 'object' || it === null || depth === 0) return false;
    const others = Object.entries(it).filter(([name]) => !HAS_VALUES.test(name));
    return passesOn(
      others.map(([, own]): unknown => own),
      read,
      depth - 1,
    );
  });
}

/** Numbers, and texts that begin with one of the numbers that are read before the lock; in objects, too: `{ $set: { points } }`. */
function partsIn(given: readonly unknown[], depth: number = 2): readonly (number | string)[] {
  return given.flatMap((it) => {
    if (typeof it === 'object' && it !== null) {
      // What is added to the value that is there overwrites nothing.
      const fields = Object.entries(it).flatMap(([name, own]) => (name === '$inc' ? [] : [own as unknown]));
      return depth > 0 ? partsIn(fields, depth - 1) : [];
    }
    return typeof it === 'number' || (typeof it === 'string' && IS_ADDED.test(it)) ? [it] : [];
  });
}
