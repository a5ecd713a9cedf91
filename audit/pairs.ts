import type { Defect } from './defect.js';
import { nameOfPlan, type Plan } from './plan.js';
import { played } from './played.js';
import type { Runnable } from './subject.js';

const ONE = 'from|source|src|sender|payer|debtor|debit';
const OTHER = 'to|target|dest(?:ination)?|recipient|receiver|payee|creditor|credit';
/** A name that is made of both sides of a transfer: `transfer:${from}:${to}`, `[from, to].sort().join(':')`. */
const OF_BOTH = new RegExp(
  String.raw`\x60[^\x60\n]*\$\{[^\x60\n]*\b(?:\w+\.)?(?:${ONE})(?:_?[A-Z]\w*|_\w+)?\b[^\x60\n]*\b(?:\w+\.)?(?:${OTHER})(?:_?[A-Z]\w*|_\w+)?\b[^\x60\n]*\x60`,
);
/** What changes a record. */
const CHANGES = /(?:^|\.)(?:update|save|set|put)\w*(?: |$)/i;
/** What a record has is changed by a number, in the database. */
const ADDS = /\b(\w+)\s*=\s*(?:\w+\.)?\1\s*[-+]|\b(?:in|de)crement\b|\$inc\b/i;

/**
 * What is wrong where the lock of a transfer is named after both sides together, and each of them is changed under it by what was read:
 * a transfer between one of them and a third takes another lock.
 */
export async function locksPair(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { texts } = subject.bench.program;
  if (!texts.some((it) => OF_BOTH.test(it)) || texts.some((it) => ADDS.test(it))) return null;
  const [alone] = await played(subject, [{ plan, atMs: 10 }]);
  const { key = null, works = [], isGranted = false } = alone?.trial ?? {};
  if (!isGranted || key === null || !/\ba\b.*\ba\b/.test(key)) return null;
  const changes = works.filter((it) => CHANGES.test(it));
  const isTwice = changes.some((it, i) => changes.indexOf(it) < i);
  return isTwice ? { ...OF_PAIR, sentence: `${nameOfPlan(plan)} ${OF_PAIR.sentence}` } : null;
}

const OF_PAIR: Defect = {
  id: 'key-of-pair',
  sentence:
    'names its lock after both sides together, and changes each of them under it: a transfer between one of the two and a third (A to B, and A to C) has another key and runs at the same time, both read the same account, and one overwrites the other',
  fix: 'take one lock for each side, in one order (sorted), or change each by one atomic statement (SET balance = balance - ?)',
  brings: [],
  property: 'mutual-exclusion',
  isShown: true,
};
