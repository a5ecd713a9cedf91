/* Statements of SQL, as they are handed to what is not known. */

const CHANGES =
  /^\s*(?:insert|update|delete|merge|replace|truncate|call)\b|^\s*with\b[\s\S]*\b(?:insert\s+into|update|delete\s+from)\b/i;
const READS = /^\s*(?:select|with|values|table)\b/i;
/** How a method is called that is handed any statement. */
const ANY = /(?:^|\.)(?:\$?(?:query|execute|exec|run|raw|unsafe|sql|all|one|none|any|get|begin)\w*|neon|postgres)$/i;

/** The text of a statement that is called: a text, a template, or an object that has one; `null` where it is none. */
export function statementIn([first]: readonly unknown[]): string | null {
  if (typeof first === 'string') return first;
  if (Array.isArray(first) && 'raw' in first) return first.join('?');
  const text: unknown =
    typeof first === 'object' && first !== null ? (Reflect.get(first, 'text') ?? Reflect.get(first, 'sql')) : null;
  return typeof text === 'string' ? text : null;
}

/**
 * The name of a call, by which it is known whether that changes anything: the first word of its statement where it has one, in the place
 * of `query`.
 */
export function namedByStatement(path: string, told: readonly unknown[]): string {
  const text = ANY.test(path) ? statementIn(told) : null;
  if (text === null || !CHANGES.test(text)) return path;
  const verbs = (text.match(/\b(?:insert|update|delete|merge|replace|truncate|call)\b/gi) ?? []).map((it) =>
    it.toLowerCase(),
  );
  // `WITH … AS (UPDATE …) INSERT …` changes what was there, too.
  const isWith = /^\s*with\b/i.test(text);
  const verb = (isWith ? (verbs.find((it) => it === 'update') ?? verbs.at(-1)) : verbs[0]) ?? 'change';
  return `${path.replace(/[^.]*$/, '')}${verb}`;
}

/** Whether a call is handed a statement. */
export function isStatement(told: readonly unknown[]): boolean {
  const text = statementIn(told);
  return text !== null && (CHANGES.test(text) || READS.test(text));
}

/** What is handed a statement and gives one record or nothing: `oneOrNone`, `queryOne`, `get`. */
const GIVES_ONE = /(?:^|\.)(?:get|(?:query|execute)?one\w*)$/i;

/** What a statement gives that reads and finds nothing, in the forms of several clients; `undefined` for every other call. */
export function nothingOf(path: string, told: readonly unknown[]): unknown {
  const text = ANY.test(path) ? statementIn(told) : null;
  if (text === null || !READS.test(text) || CHANGES.test(text)) return undefined;
  if (GIVES_ONE.test(path)) return null;
  return Object.assign(Array.isArray(told[0]) ? [] : [[]], { rows: [], rowCount: 0 });
}

/** How a transaction begins and ends, as a statement or as the name of a method. */
const TRANSACTION_STEPS = [
  ['begin', /^\s*(?:begin|start\s+transaction)\b/i, /(?:^|\.)(?:begin\w*|startTransaction|\$?transaction)$/i],
  ['commit', /^\s*(?:commit|end)\b/i, /(?:^|\.)commit(?:Transaction)?$/i],
  ['rollback', /^\s*rollback\b(?!\s+to\b)/i, /(?:^|\.)(?:rollback|abort)(?:Transaction)?$/i],
] as const;

/** Whether a call begins or ends a transaction. */
export function transactionStepOf(name: string, told: readonly unknown[]): 'begin' | 'commit' | 'rollback' | null {
  const text = ANY.test(name) ? (statementIn(told) ?? '') : '';
  return TRANSACTION_STEPS.find(([, statement, method]) => statement.test(text) || method.test(name))?.[0] ?? null;
}

const LOCKS_RECORDS = /\bfor\s+(?:no\s+key\s+)?update\b(?!\s+skip)|\bpg_advisory_xact_lock\b/i;

/** Whether a statement locks records until its transaction ends: what another process has not committed yet is waited for. */
export function locksRecords(told: readonly unknown[]): boolean {
  return LOCKS_RECORDS.test(statementIn(told) ?? '');
}
