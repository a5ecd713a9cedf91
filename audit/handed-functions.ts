import { current, type ProcessContext } from '../libraries/runtime/owner.js';
import { isClass } from './classes.js';
import { forgetHooks, noteRoute, withHooks } from './hooks.js';

/** What becomes of a function that is handed to one of which nothing is known. */
export type Handed = 'called-back' | 'run' | 'begun' | 'kept' | null;

/** What runs what it is handed, around which it does something: a transaction, a span, retries. */
const RUNS =
  /(?:^|\.)\$?(?:(?:run|do|execute|begin|start)?(?:in|with|within)?_?(?:transaction(?:al)?|tx|unitOfWork)|begin|atomic(?:ally)?|(?:start(?:Active)?|with|in)?Span|trace|instrument|measure|timed?|retry|withRetr(?:y|ies)|(?:run|with|in)[A-Z]\w*|run|wrap)$/;

/** What begins what it is handed, and returns a response before that has ended: `stream(c, async (out) => …)` of Hono. */
const BEGINS_ALONE = /^(?:stream|streamSSE|streamText)$/;

/** What keeps what it is handed, and calls it for each request, job or event. */
const KEEPS =
  /(?:^|\.)(?:get|post|put|patch|delete|all|use|route|handler?|process|work|consume|schedule|scheduleJob|Cron|cron|every|job|command|action|mutation|add|define|decorate|register\w*|subscribe|on[A-Z]\w*|on|addListener|addEventListener)$/;

/** Events of what is handed over itself. */
const OF_ITSELF =
  /^(?:error|close|end|finish|connect|disconnect|ready|reconnecting|exit|abort|data|drain|warning|failed|completed|stalled|progress|drained|active|SIG\w+|(?:before|un)\w+)$/;

/** Events of a program that begins: `app.addHook('onReady', connect)`. */
const BEGINS = /^(?:onReady|preReady|onListen)$/;

/** An answer that does not wait for what has begun. */
export function besides<T>(begun: Promise<unknown>, answer: T): T {
  begun.catch(() => {});
  return answer;
}

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
  if (RUNS.test(path) || given.some((one) => typeof one === 'string' && BEGINS.test(one))) return 'run';
  if (BEGINS_ALONE.test(path) && given.length > 1) return 'begun';
  const isEvent = given.some((one) => typeof one === 'string' && OF_ITSELF.test(one));
  // Only options may follow it.
  const isLast = given.slice(given.lastIndexOf(it) + 1).every((one) => typeof one === 'object');
  // A procedure of tRPC, and no text for a database.
  const isProcedure = given[0] === it && /\.query$/.test(path);
  return (KEEPS.test(path) || isProcedure) && isLast && !isEvent ? 'kept' : null;
}

/** What is called for each message, request or firing, by the name under which it is handed over: `{ eachMessage }`. */
const HANDLERS: readonly string[] = ['handler', 'eachMessage', 'eachBatch', 'onTick', 'processor', 'handleMessage'];

/** The last function that something is made with, or that is in what it is made with; `undefined` where there is none. */
export function handlerIn(given: readonly unknown[]): unknown {
  const parts = given.flatMap((it) =>
    typeof it === 'object' && it !== null ? HANDLERS.map((name) => Reflect.get(it, name) as unknown) : [it],
  );
  return parts.findLast((it) => typeof it === 'function' && !isClass(it));
}

/** Whether a call has something be told of events. */
export function listens(path: string, handed: unknown): boolean {
  return handed !== undefined && /(?:^|\.)(?:on|once|addListener|addEventListener)$/.test(path);
}

/** Of each process, what was handed over for later since it was asked last. */
const KEPT = new WeakMap<ProcessContext, Record<string, unknown>>();

/**
 * Notes a function that is handed over for later, by the name of what keeps it, with the route where there is one; the first of each
 * name.
 *
 * @param told - What is handed over with it. Default: nothing.
 */
export function keep(path: string, it: unknown, told: readonly unknown[] = []): void {
  const { owner } = current;
  if (owner === null) return;
  const [about] = told;
  noteRoute(it, told);
  const kept = KEPT.get(owner) ?? {};
  const route = typeof about === 'string' && about.startsWith('/') ? ` ${about}` : '';
  kept[path.replace(/^.*\./, '') + route] ??= it;
  KEPT.set(owner, kept);
}

/** What is handed over for later while a process does something, by name. */
export async function keptBy<T>(
  does: () => Promise<T>,
): Promise<{ readonly result: T; readonly kept: Record<string, unknown> }> {
  const { owner } = current;
  if (owner === null) return { result: await does(), kept: {} };
  KEPT.delete(owner);
  forgetHooks(owner);
  const result = await does();
  return { result, kept: withHooks(owner, KEPT.get(owner) ?? {}) };
}

/**
 * What a call gives that makes something; where that is nothing, the functions that it has handed over for later: a file that is given
 * an application adds its handlers to that.
 *
 * @param isNothing - Whether nothing is known of what it gives.
 */
export async function madeBy(call: () => unknown, isNothing: (made: unknown) => boolean): Promise<unknown> {
  const { result: made, kept } = await keptBy(async () => call());
  return (made === undefined || isNothing(made)) && Object.keys(kept).length > 0 ? kept : made;
}

/** Whether all methods of something keep what they are handed: an application, a router, a queue. */
export function keepsHandlers(methods: readonly string[]): boolean {
  return methods.length > 0 && methods.every((it) => KEEPS.test(it));
}
