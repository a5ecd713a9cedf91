import { current, type ProcessContext } from '../libraries/runtime/owner.js';

/** What becomes of a function that is handed to one of which nothing is known. */
export type Handed = 'called-back' | 'run' | 'kept' | null;

/** What runs what it is handed, around which it does something: a transaction, a span, retries. */
const RUNS =
  /(?:^|\.)\$?(?:(?:run|do|execute|begin|start)?(?:in|with|within)?_?(?:transaction(?:al)?|tx|unitOfWork)|atomic(?:ally)?|(?:start(?:Active)?|with|in)?Span|trace|instrument|measure|timed?|retry|withRetr(?:y|ies)|(?:run|with|in)[A-Z]\w*|run|wrap)$/;

/** What keeps what it is handed, and calls it for each request, job or event. */
const KEEPS =
  /(?:^|\.)(?:get|post|put|patch|delete|all|use|route|handler?|process|work|consume|schedule|cron|every|job|command|action|add|define|register\w*|subscribe|on[A-Z]\w*|on|addListener|addEventListener)$/;

/** Events of what is handed over itself. */
const OF_ITSELF =
  /^(?:error|close|end|finish|connect|disconnect|ready|reconnecting|exit|abort|data|drain|warning|SIG\w+|(?:before|un)\w+)$/;

/** The name of the first parameter of a function. */
const FIRST = /^(?:async\s*)?(?:function\s*[\w$]*\s*)?\(?\s*([\w$]*)/;

/** What a function calls its first parameter; empty where it has none. */
export function firstOf(it: (...told: readonly unknown[]) => unknown): string {
  return FIRST.exec(Function.prototype.toString.call(it))?.[1] ?? '';
}

/**
 * What a function does with the last one that it is handed, by its name, and by what that calls its first parameter: an error is
 * what callbacks of Node's style are given first.
 *
 * @param path - The names by which it was found: `db.transaction`.
 */
export function becomesOf(
  path: string,
  given: readonly unknown[],
  it: (...told: readonly unknown[]) => unknown,
): Handed {
  const first = firstOf(it);
  if (/^_?(?:e|er|err|error|ex|\w*Err|\w*Error)$/.test(first)) return given.at(-1) === it ? 'called-back' : null;
  if (RUNS.test(path)) return 'run';
  const isEvent = given.some((one) => typeof one === 'string' && OF_ITSELF.test(one));
  return KEEPS.test(path) && given.at(-1) === it && !isEvent ? 'kept' : null;
}

/** Of each process, what was handed over for later since it was asked last. */
const KEPT = new WeakMap<ProcessContext, Record<string, unknown>>();

/** Notes a function that is handed over for later, by the name of what keeps it; the first of each name. */
export function keep(path: string, it: unknown): void {
  const { owner } = current;
  if (owner === null) return;
  const kept = KEPT.get(owner) ?? {};
  kept[path.replace(/^.*\./, '')] ??= it;
  KEPT.set(owner, kept);
}

/**
 * What a call gives that makes something; where that is nothing, the functions that it has handed over for later: a file that is given
 * an application adds its handlers to that.
 *
 * @param isNothing - Whether nothing is known of what it gives.
 */
export async function madeBy(call: () => unknown, isNothing: (made: unknown) => boolean): Promise<unknown> {
  const { owner } = current;
  if (owner !== null) KEPT.delete(owner);
  const made = await call();
  return made === undefined || isNothing(made) ? ((owner === null ? undefined : KEPT.get(owner)) ?? made) : made;
}

/** Whether all methods of something keep what they are handed: an application, a router, a queue. */
export function keepsHandlers(methods: readonly string[]): boolean {
  return methods.length > 0 && methods.every((it) => KEEPS.test(it));
}
