import { isWork } from './called.js';
import type { Defect } from './defect.js';
import { nameOfPlan, type Plan } from './plan.js';
import { namesInLock, played } from './played.js';
import { SAYS_SAFE } from './repeats.js';
import type { Runnable } from './subject.js';

const ONE = 'from|source|src|sender|payer|debtor|debit';
const OTHER = 'to|target|dest(?:ination)?|recipient|receiver|payee|creditor|credit';
/** A name that is made of both sides of a transfer: `transfer:${from}:${to}`, `[from, to].sort().join(':')`. */
const OF_BOTH = new RegExp(
  String.raw`\x60[^\x60\n]*\$\{[^\x60\n]*\b(?:\w+\.)?(?:${ONE})(?:_?[A-Z]\w*|_\w+)?\b[^\x60\n]*\b(?:\w+\.)?(?:${OTHER})(?:_?[A-Z]\w*|_\w+)?\b[^\x60\n]*\x60`,
);
/** What changes a record. */
const CHANGES = /(?:^|\.)(?:update|save|set|put)\w*(?: |$)/i;
/** What stores a record in Redis. */
const STORES = /^(?:set|hm?set)$/;
/** What a record has is changed by a number, in the database. */
const ADDS = /\b(\w+)\s*=\s*(?:\w+\.)?\1\s*[-+]|\b(?:in|de)crement\b|\$inc\b/i;

/** What is wrong with the name of the lock of a transfer, or of what two have together. */
export async function ofTransfer(subject: Runnable, plan: Plan): Promise<Defect | null> {
  return (
    (await locksPair(subject, plan)) ??
    (await locksOneSide(subject, plan)) ??
    (await locksInOrder(subject, plan)) ??
    locksStart(subject, plan)
  );
}

/** Looks for what overlaps a range: `arrival < $3 AND departure > $2`. */
const OVERLAPS =
  /\b\w*overlap\w*\s*\(|\b\w+\s*<=?\s*(?:\$\d|\$\{[^}]*\}|[:@]\w+|\?)\s+and\s+\w+\s*>=?\s*(?:\$\d|\$\{|[:@]\w|\?)/i;
/** What keeps others out of a range besides: a constraint, and locks of the database. */
const KEEPS_OUT = /exclu(?:de|sion)|no_?overlap|for update|serializable|pessimistic/i;
/** A name of a key that has the beginning of a range in it. */
const OF_START =
  /`([^`\n]*:[^`\n]*\$\{\s*(?:\w+\.)*(?:arrival|checkIn|start\w*|from|begin\w*)(?:\.(?:toISOString|getTime|valueOf)\(\))?\s*\})`/g;

/** What is wrong where the lock of a range is named after its beginning, and the file looks for others that overlap it. */
async function locksStart(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { texts } = subject.bench.program;
  const templates = texts.flatMap((it) => [...it.matchAll(OF_START)].map(([, template = '']) => template));
  if (templates.length === 0 || !texts.some((it) => OVERLAPS.test(it)) || texts.some((it) => KEEPS_OUT.test(it)))
    return null;
  const [alone] = await played(subject, [{ plan, atMs: 10 }]);
  const { key = null, isGranted = false } = alone?.trial ?? {};
  const isNamed = (template: string): boolean => {
    const parts = template.split(/\$\{[^}]*\}/).map((it) => it.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
    return new RegExp(`^${parts.join('.+')}$`).test(key ?? '');
  };
  if (!isGranted || key === null || !templates.some(isNamed)) return null;
  return { ...OF_RANGE, sentence: `${nameOfPlan(plan)} ${OF_RANGE.sentence}` };
}

/** Looks for what two have together, whichever of them is named first: `(a = $1 AND b = $2) OR (a = $2 AND b = $1)`. */
const OF_EITHER_ORDER = [
  /\{\s*(\w+):\s*([\w.]+),\s*(\w+):\s*([\w.]+)\s*\}[\s\S]{0,120}?\{\s*\1:\s*\4,\s*\3:\s*\2\s*\}/,
  /\b(\w+)\s*=\s*(\$\d+)\s+and\s+(\w+)\s*=\s*(\$\d+)\s*\)?\s*or\s*\(?\s*\1\s*=\s*\4\s+and\s+\3\s*=\s*\2\b/i,
];
/** Puts two names into one order. */
const ORDERS = /\.(?:sort|toSorted)\(|Math\.(?:min|max)\(|localeCompare|\bleast\(|[<>]=?\s*[\w.]+\s*\?/i;

/**
 * What is wrong where the lock of what two have together is named after both in the order in which they are given, and the file looks for
 * both orders.
 */
async function locksInOrder(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { texts } = subject.bench.program;
  const looksForBoth = texts.some((it) => OF_EITHER_ORDER.some((of) => of.test(it)));
  if (!looksForBoth || texts.some((it) => ORDERS.test(it) || SAYS_SAFE.test(it))) return null;
  const [alone] = await played(subject, [{ plan, atMs: 10 }]);
  const { key = null, works = [], isGranted = false } = alone?.trial ?? {};
  if (!isGranted || key === null || !/\ba\b.*\ba\b/.test(key) || !works.some(isWork)) return null;
  return { ...IN_ORDER, sentence: `${nameOfPlan(plan)} ${IN_ORDER.sentence}` };
}

/**
 * What is wrong where the lock of a transfer is named after both sides together, and each of them is changed under it by what was read:
 * a transfer between one of them and a third takes another lock.
 */
async function locksPair(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { texts } = subject.bench.program;
  if (!texts.some((it) => OF_BOTH.test(it)) || texts.some((it) => ADDS.test(it))) return null;
  const [alone] = await played(subject, [{ plan, atMs: 10 }]);
  const { key = null, works = [], isGranted = false, sent = [], grantedMs = 0 } = alone?.trial ?? {};
  if (!isGranted || key === null || !/\ba2?\b.*\ba2?\b/.test(key)) return null;
  const isTwice = (changes: readonly string[]): boolean => changes.some((it, i) => changes.indexOf(it) < i);
  const stored = sent.filter((it) => STORES.test(it.verb) && it.key !== key && it.atMs >= grantedMs);
  const moves = texts.some((it) => MOVES.test(it)) && isTwice(stored.map((it) => it.key.replace(/\ba2?\b/, '')));
  return moves || isTwice(works.filter((it) => CHANGES.test(it)))
    ? { ...OF_PAIR, sentence: `${nameOfPlan(plan)} ${OF_PAIR.sentence}` }
    : null;
}

/** A number that is taken from one record, and added to another: `source.cents -= amount; target.cents += amount`. */
const MOVES =
  /\b(\w+)\.(\w+)\s*(?:-=|=\s*\1\.\2\s*-)[\s\S]{0,200}?\b(?!\1\b)(\w+)\.\2\s*(?:\+=|=\s*\3\.\2\s*\+)|\b(\w+)\.(\w+)\s*-\s*\w+[\s\S]{0,300}?\b(?!\4\b)\w+\.\5\s*\+/;
/** What keeps others from the records besides: locks, isolation and versions of the database. */
const GUARDS = /for update|pessimistic|serializable|\bversion\b|optimistic/i;
const [IS_ONE, IS_OTHER] = [ONE, OTHER].map((it) => new RegExp(String.raw`^(?:${it})(?:_?[A-Z]\w*|_\w+)?$`)) as [
  RegExp,
  RegExp,
];

/** A name of a key that is made of one thing: `account:${from}`, and both sides as a function takes them: `{ from, to }`. */
const OF_ONE = /`[\w:{}-]*:[\w:{}-]*\$\{\s*(?:\w+\.)*(\w+)\s*\}[\w:{}-]*`/g;
const SIDES = new RegExp(
  String.raw`[{(,]\s*((?:${ONE})(?:_?[A-Z]\w*|_\w+)?)(?:\s*:\s*\w+)?\s*,\s*((?:${OTHER})(?:_?[A-Z]\w*|_\w+)?)\b`,
);

/** The side of a transfer after which keys are named, and the other one, as files say. */
function sidesIn(texts: readonly string[]): readonly [string, string] | null {
  const [, one, other] = texts.map((it) => SIDES.exec(it)).find((it) => it !== null) ?? [];
  if (one === undefined || other === undefined) return null;
  const named = texts.flatMap((it) => [...it.matchAll(OF_ONE)].map(([, name = '']) => name));
  if (named.includes(one) === named.includes(other)) return null;
  return named.includes(one) ? [one, other] : [other, one];
}

/** The same, as calls show in which one argument differs. */
async function sidesBy(
  subject: Runnable,
  plan: Plan,
  names: readonly string[],
): Promise<readonly [string, string] | null> {
  const [one, other] = [IS_ONE, IS_OTHER].map((is) => names.find((it) => is.test(it.replace(/^.*\./, ''))));
  if (one === undefined || other === undefined) return null;
  const [named, ...more] = await namesInLock(subject, plan, [one, other]);
  return named === undefined || more.length > 0 ? null : [named, named === one ? other : one];
}

/**
 * What is wrong where the lock of a transfer is named after one of its sides, and both are changed under it by what was read: a transfer
 * that has the other side as its own takes another lock.
 */
async function locksOneSide(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { texts } = subject.bench.program;
  if (!texts.some((it) => MOVES.test(it)) || texts.some((it) => ADDS.test(it) || GUARDS.test(it))) return null;
  const [alone] = await played(subject, [{ plan, atMs: 10 }]);
  const { names = new Set<string>(), works = [], isGranted = false } = alone?.trial ?? {};
  if (!isGranted || !works.some((it) => CHANGES.test(it))) return null;
  const [named, left] = sidesIn(texts) ?? (await sidesBy(subject, plan, [...names])) ?? [];
  if (named === undefined || left === undefined) return locksNeitherSide(subject, plan, [...names]);
  return {
    ...OF_SIDE,
    sentence: `${nameOfPlan(plan)} names its lock after "${named}" alone, and changes under it what belongs to "${left}", too: two calls with the same "${left}" and another "${named}" have two keys and run at the same time, both read the same value, and one change is overwritten`,
  };
}

/** What may have the sides of a transfer: the body of a request, or its parameters, and not its headers. */
const MAY_HAVE_SIDES = /(?<!headers\.)\*$/;

/** The same where the lock is named after neither side, but after the transfer itself. */
async function locksNeitherSide(subject: Runnable, plan: Plan, names: readonly string[]): Promise<Defect | null> {
  if (!subject.bench.program.texts.some((it) => SIDES.test(it))) return null;
  const mayHave = (it: string): boolean => {
    const name = it.replace(/^.*\./, '');
    return IS_ONE.test(name) || IS_OTHER.test(name) || MAY_HAVE_SIDES.test(it);
  };
  const named = await namesInLock(subject, plan, names);
  if (!names.some(mayHave) || named.length === 0 || named.some(mayHave)) return null;
  const after = named.map((it) => `"${it.replace(/\.\*$/, '')}"`).join(' and ');
  return {
    ...OF_SIDE,
    sentence: `${nameOfPlan(plan)} names its lock after ${after}, and not after the two that it takes from and adds to: two calls about one of these have two keys and run at the same time, both read the same value, and one change is overwritten`,
  };
}

const OF_SIDE: Omit<Defect, 'sentence'> = {
  id: 'key-of-side',
  fix: 'take one lock for each side, in one order (sorted), or change each by one atomic statement (SET balance = balance - ?)',
  brings: [],
  property: 'mutual-exclusion',
  isShown: true,
};

const OF_PAIR: Defect = {
  id: 'key-of-pair',
  sentence:
    'names its lock after both sides together, and changes each of them under it: a transfer between one of the two and a third (A to B, and A to C) has another key and runs at the same time, both read the same account, and one overwrites the other',
  fix: 'take one lock for each side, in one order (sorted), or change each by one atomic statement (SET balance = balance - ?)',
  brings: [],
  property: 'mutual-exclusion',
  isShown: true,
};

const IN_ORDER: Defect = {
  id: 'key-of-order',
  sentence:
    'names its lock after two things in the order in which it is given them, though what it looks for may have them in either order: a call with the same two the other way round has another key, and does the same work at the same time',
  fix: 'sort the two before the key is made of them',
  brings: [],
  property: 'mutual-exclusion',
  isShown: true,
};

const OF_RANGE: Defect = {
  id: 'key-of-start',
  sentence:
    'names its lock after the beginning of a range, and looks under it for others that overlap: two that overlap and begin at different times have two keys and run at the same time, neither finds the other, and both are stored',
  fix: 'name the lock after the thing alone (the room, the seat), or take one lock for each part of the range (each night)',
  brings: [],
  property: 'mutual-exclusion',
  isShown: true,
};
