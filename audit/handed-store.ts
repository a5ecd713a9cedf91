import { isWork, ownerOf } from './called.js';
import type { Defect } from './defect.js';
import { nameOfPlan, type Plan } from './plan.js';
import { once } from './played.js';
import { heldNow } from './rehearsal.js';
import type { Said } from './said.js';
import { STALE_READ } from './shown-defects.js';
import type { Runnable } from './subject.js';

/** A call of something that a function was handed, while it has the lock. */
interface Call {
  readonly name: string;
  /** The numbers among its arguments, and in objects among these; and texts to which something was added. */
  readonly parts: readonly (number | string)[];
}

/** What a function calls before it has the lock, and while it has it. */
interface Calls {
  readonly before: readonly string[];
  readonly held: readonly Call[];
  /** The numbers that it was given before. */
  readonly read: readonly number[];
  /** It asks for the lock with one of them. */
  readonly isAsked: boolean;
}

/** What is read before the lock is this times a power of three, as a number: no sum or difference of two is a third. */
const VALUES = [1_000, 7_000] as const;
const MOST_POWERS = 20;
/** A text that begins with one of them. */
const IS_ADDED = /^\d+000\D/;

/** What a call is made of: of a transaction, or of a connection that a pool gives, that is its store. */
function storeOf(name: string): string {
  return ownerOf(name)
    .replace(/^(?:tx|trx|transaction|session|em)\b/, '')
    .replace(/\.(?:connect|getConnection|reserve)\.$/, '.');
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
  const [one, two] = [await callsWith(subject, plan, VALUES[0]), await callsWith(subject, plan, VALUES[1])];
  if (one.isAsked) return null;
  for (const [i, { name, parts }] of one.held.entries()) {
    const other = two.held[i];
    if (other?.name !== name) return null;
    const read = one.before.find((it) => storeOf(it) === storeOf(name) && !CHANGES.test(it));
    const isMade = parts.some((it, at) => it !== other.parts[at]) && !parts.some((it) => one.read.includes(Number(it)));
    if (read === undefined || !isMade || !STORES.test(name)) continue;
    return { ...STALE_READ, sentence: `${nameOfPlan(plan)} calls ${read.replace(/^\./, '')} ${STALE_READ.sentence}` };
  }
  return null;
}

/**
 * What it calls before it has the lock, and while it has it, where what it reads before is this as a number, and whether it asks for the
 * lock with that: a fencing token rises above what is stored.
 */
async function callsWith(subject: Runnable, plan: Plan, value: number): Promise<Calls> {
  const { bench } = subject;
  const read: number[] = [];
  const before: string[] = [];
  const held: Call[] = [];
  const heard = (given: readonly unknown[], name: string): void => {
    const isHeld = heldNow(bench) !== null;
    if (isHeld && isWork(name)) held.push({ name, parts: partsIn(given) });
    // What comes after a release belongs to the next lock, if there is one.
    if (!isHeld && held.length === 0) before.push(name);
  };
  const number = (): number => {
    if (heldNow(bench) !== null) return 1;
    const next = value * 3 ** Math.min(read.length, MOST_POWERS);
    read.push(next);
    return next;
  };
  const { trial } = (await once(subject, plan, { heard, number })) ?? {};
  const isAsked = ({ operation, words }: Said): boolean =>
    operation === 'acquire' && read.some((it) => words.includes(String(it)));
  return { before, held, read, isAsked: trial?.sent.some(isAsked) ?? false };
}

/** Numbers, and texts that begin with one of the numbers that are read before the lock; in objects, too: `{ $set: { points } }`. */
function partsIn(given: readonly unknown[], depth: number = 2): readonly (number | string)[] {
  return given.flatMap((it) => {
    if (typeof it === 'object' && it !== null) return depth > 0 ? partsIn(Object.values(it), depth - 1) : [];
    return typeof it === 'number' || (typeof it === 'string' && IS_ADDED.test(it)) ? [it] : [];
  });
}
