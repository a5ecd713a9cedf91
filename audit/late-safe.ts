/* Whether a call does no harm where it is late, or made a second time, by what it is handed. */

/** What an object was made of that a call is handed: `new UpdateCommand({ … })`. */
const MADE_OF = new WeakMap<object, readonly unknown[]>();

/** Notes what an object of which nothing is known was made of. */
export function noteMade(made: object, told: readonly unknown[]): void {
  MADE_OF.set(made, told);
}

type Fields = Readonly<Record<string, unknown>>;

/** Operators by which documents are changed. */
const OPERATORS = ['$set', '$inc', '$push', '$unset'] as const;
/** What has the values of a change, by its name. */
const VALUES = ['data', 'set', 'values', 'update'] as const;
/** Depth of the objects that are looked at. */
const DEPTH = 3;

/**
 * Whether it is a store on the condition that nobody has changed a value which it changes itself (compare and set), or a call with an
 * idempotency key.
 */
export function isSafeLate(told: readonly unknown[]): boolean {
  const given = told.flatMap((it) => MADE_OF.get(Object(it) as object) ?? [it]);
  const texts = given.flatMap(textsIn);
  return given.some((it) => isKeyed(it, DEPTH)) || isConditional(given) || texts.some(comparesAndSets);
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null;
}

/** Whether it has an idempotency key, or the condition of a store in DynamoDB or S3. */
function isKeyed(value: unknown, depth: number): boolean {
  if (!isFields(value) || depth === 0) return false;
  return Object.entries(value).some(
    ([name, it]) =>
      (/^(?:x-)?idempotency-?(?:key|token)$|^(?:ConditionExpression|IfNoneMatch|IfMatch)$/i.test(name) && it) ||
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

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (Array.isArray(value) && 'raw' in value) return [value.join('?')];
  const text: unknown = isFields(value) ? (value.text ?? value.sql) : null;
  return typeof text === 'string' ? [text] : [];
}

/** `UPDATE … SET status = … WHERE id = … AND status = …`. */
function comparesAndSets(text: string): boolean {
  const [, set = '', where = ''] = /\bupdate\b[\s\S]*?\bset\b([\s\S]*?)\bwhere\b([\s\S]*)/i.exec(text) ?? [];
  const changed = [...set.matchAll(/(\w+)\s*=(?!=)/g)].map(([, name = '']) => name);
  return changed.some((name) => new RegExp(String.raw`\b${name}\b\s*(?:=|<|>|is\b|in\b|not\b)`, 'i').test(where));
}
