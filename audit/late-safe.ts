import { isWork } from './called.js';
import { statementIn } from './statements.js';
import { madeOf } from './unknown.js';

/* Whether a call does no harm where it is late, or made a second time, by what it is handed. */

type Fields = Readonly<Record<string, unknown>>;

/** Operators by which documents are changed. */
const OPERATORS = ['$set', '$inc', '$push', '$unset'] as const;
/** What has the values of a change, by its name. */
const VALUES = ['data', 'set', 'values', 'update'] as const;
/** Depth of the objects that are looked at. */
const DEPTH = 3;

/** What gives a connection up, by its name, where it is given no arguments. */
const GIVES_UP_CONNECTION = /\.(?:release|close|end|quit|disconnect|destroy)$/i;

/** Whether a call of this name does more than look, and harm where it is late. */
export function isHarmful(name: string, told: readonly unknown[]): boolean {
  return isWork(name) && !isSafeLate(told) && !(told.length === 0 && GIVES_UP_CONNECTION.test(name));
}

/**
 * Whether it is a store on the condition that nobody has changed a value which it changes itself (compare and set), one of a record that
 * is not there yet, or a call with an idempotency key.
 */
export function isSafeLate(told: readonly unknown[]): boolean {
  const given = told.flatMap((it) => madeOf(it)?.told ?? [it]);
  // It is handed an error, as `next(error)`, and does none of the work.
  if (given.some((it) => it instanceof Error)) return true;
  const statement = statementIn(given) ?? '';
  return (
    given.some((it) => isKeyed(it, DEPTH)) || isConditional(given) || comparesAndSets(statement) || addsOnce(statement)
  );
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null;
}

/** Whether it has an idempotency key, as the id of a job in a queue, or the condition of a store in DynamoDB or S3. */
function isKeyed(value: unknown, depth: number): boolean {
  if (!isFields(value) || depth === 0) return false;
  return Object.entries(value).some(
    ([name, it]) =>
      (/^(?:x-)?idempotency-?(?:key|token)$|^(?:jobId|ConditionExpression|IfNoneMatch|IfMatch)$/i.test(name) && it) ||
      isKeyed(it, depth - 1),
  );
}

/** `update({ where: { id, status }, data: { status } })`, and `updateOne({ _id, revision }, { $inc: { revision } })`. */
function isConditional(given: readonly unknown[]): boolean {
  const objects = given.filter(isFields);
  const conditions = objects.map(({ where }) => where).filter(isFields);
  const [first, ...others] = objects;
  const changes = objects.flatMap((it) => [...VALUES, ...OPERATORS].map((name) => it[name])).filter(isFields);
  if (changes.some((it) => conditions.some((where) => shares(where, it)))) return true;
  const isWhere = ({ where }: Fields): boolean => where !== undefined;
  return first !== undefined && !objects.some(isWhere) && changesOf(others).some((it) => shares(first, it));
}

function changesOf(objects: readonly Fields[]): readonly Fields[] {
  return objects.flatMap((it) => OPERATORS.map((name) => it[name])).filter(isFields);
}

function shares(where: Fields, change: Fields): boolean {
  return Object.keys(change).some((name) => Object.hasOwn(where, name));
}

/** `UPDATE … SET status = … WHERE id = … AND status = …`. */
function comparesAndSets(text: string): boolean {
  const [, set = '', where = ''] = /\bupdate\b[\s\S]*?\bset\b([\s\S]*?)\bwhere\b([\s\S]*)/i.exec(text) ?? [];
  const changed = [...set.matchAll(/(\w+)\s*=(?!=)/g)].map(([, name = '']) => name);
  return changed.some((name) => new RegExp(String.raw`\b${name}\b\s*(?:=|<|>|is\b|in\b|not\b)`, 'i').test(where));
}

/** `INSERT … ON CONFLICT DO NOTHING`, and the same in other dialects. */
function addsOnce(text: string): boolean {
  return /\binsert\b[\s\S]*\bon\s+conflict\b[^;]*\bdo\s+nothing\b|\binsert\s+(?:or\s+)?ignore\b/i.test(text);
}
