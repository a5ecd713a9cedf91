import { randomUUID } from 'node:crypto';
import { current, type ProcessContext } from '../libraries/runtime/owner.js';
import { responseOf } from './response.js';

/* The hooks that a web framework calls around the handler of a request: one may take a lock that another one releases. */

type AnyFunction = (...given: readonly unknown[]) => unknown;

/** What is called before a handler, in this order. */
const BEFORE: readonly string[] = ['onRequest', 'preParsing', 'preValidation', 'preHandler'];
const AFTER: readonly string[] = ['preSerialization', 'onSend', 'onResponse'];
/** What is handed what is sent, and gives it. */
const OF_PAYLOAD: readonly string[] = ['preParsing', 'preSerialization', 'onSend'];
const EVENTS: readonly string[] = [...BEFORE, ...AFTER, 'onError'];

interface Hook {
  readonly event: string;
  readonly it: AnyFunction;
}

/** What an application does with each of its requests. */
interface Hooks {
  readonly all: readonly Hook[];
  /** What its requests have before the first hook. */
  readonly fields: Readonly<Record<string, unknown>>;
}

const NONE: Hooks = { all: [], fields: {} };

/** Of each process, the hooks that were added since it was asked last. */
const ADDED = new WeakMap<ProcessContext, Hooks>();

/** By handler: its hooks, and the options of its route. */
const ROUTES = new WeakMap<object, { readonly all: readonly Hook[]; readonly options: object }>();

/** By what plays the hooks around a handler: that handler. */
const PLAYED = new WeakMap<object, AnyFunction>();

/** The handler around which a function plays hooks; `undefined` for every other function. */
export function handlerOf(it: AnyFunction): AnyFunction | undefined {
  return PLAYED.get(it);
}

/**
 * Notes a hook that a call adds, or a property that it adds to requests; and registers what adds hooks.
 *
 * @param path - The names by which the function was found: `app.addHook`.
 * @param application - What hooks are added to.
 * @returns Whether it does one of these.
 */
export function noteHooks(path: string, told: readonly unknown[], application: () => unknown): boolean {
  const { owner } = current;
  const [first, second] = told;
  if (owner === null) return false;
  if (isFunction(first)) {
    if (!/(?:^|\.)register$/.test(path) || !addsHooks(first)) return false;
    (async () => first(application(), second ?? {}, () => undefined))().catch(() => {});
    return true;
  }
  const { all, fields } = ADDED.get(owner) ?? NONE;
  if (typeof first !== 'string') return false;
  const isField = /(?:^|\.)decorateRequest$/.test(path);
  const isHook = /(?:^|\.)addHook$/.test(path) && EVENTS.includes(first);
  if (isField) ADDED.set(owner, { all, fields: { ...fields, [first]: second } });
  else if (isHook && isFunction(second)) ADDED.set(owner, { all: [...all, { event: first, it: second }], fields });
  return isField || isHook;
}

/** What adds hooks to what it is handed, or routes that have some. */
export const ADDS_HOOKS: RegExp = /\.addHook\(|\b(?:onSend|onResponse)\b\s*[:,}]/;

function addsHooks(it: unknown): boolean {
  return isFunction(it) && ADDS_HOOKS.test(it.toString());
}

/** Notes the hooks that are given for one route, and its options: `app.post('/', { preHandler, config }, handler)`. */
export function noteRoute(handler: unknown, told: readonly unknown[]): void {
  const options = told.find((it): it is object => typeof it === 'object' && it !== null && !Array.isArray(it));
  if (options === undefined) return;
  const all = EVENTS.flatMap((event) =>
    [Reflect.get(options, event) as unknown].flat().flatMap((it) => (isFunction(it) ? [{ event, it }] : [])),
  );
  ROUTES.set(handler as object, { all, options });
}

function isFunction(it: unknown): it is AnyFunction {
  return typeof it === 'function';
}

/** Forgets the hooks that a process has added. */
export function forgetHooks(owner: ProcessContext): void {
  ADDED.delete(owner);
}

/** What is kept for later by a route: `post /seats`. */
const IS_ROUTE = /^(?:get|post|put|patch|delete|all|route)(?: |$)/;

/** Whether what was kept for later handles requests, by its name. */
export function isRoute(name: string): boolean {
  return IS_ROUTE.test(name);
}

/**
 * The handlers that a process has handed over, with the hooks around them; where it has hooks alone, one whose work goes on between
 * these.
 */
export function withHooks(owner: ProcessContext, kept: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { all, fields } = ADDED.get(owner) ?? NONE;
  const played = Object.entries(kept).flatMap(([name, it]): [string, unknown][] => {
    // What was registered has added its hooks.
    if (name === 'register' && addsHooks(it)) return [];
    if (!isFunction(it) || !IS_ROUTE.test(name)) return [[name, it]];
    const route = ROUTES.get(it);
    const hooks = { all: [...all, ...(route?.all ?? [])], fields };
    return [[name, surrounds(hooks) ? aroundHandler(hooks, it, route?.options) : it]];
  });
  const hasRoutes = played.some(([name]) => IS_ROUTE.test(name));
  const alone = hasRoutes || !surrounds({ all, fields }) ? {} : { request: aroundWork({ all, fields }) };
  return { ...Object.fromEntries(played), ...alone };
}

/** Whether something is done both before and after a handler. */
function surrounds({ all }: Hooks): boolean {
  return all.some(({ event }) => BEFORE.includes(event)) && all.some(({ event }) => AFTER.includes(event));
}

function aroundHandler(hooks: Hooks, handler: AnyFunction, options: object = {}): AnyFunction {
  const played = (request: unknown, reply: unknown): Promise<unknown> =>
    playedRequest(hooks, { request: requestWith(hooks, request, options), reply }, (answer) =>
      handler(request, answer),
    );
  PLAYED.set(played, handler);
  return played;
}

/** Its parameters, and that it calls the last one, say how it is used. */
function aroundWork(hooks: Hooks): AnyFunction {
  const played = async (request: unknown, reply: unknown, next: () => unknown): Promise<unknown> =>
    playedRequest(hooks, { request: requestWith(hooks, request), reply }, () => next());
  return played as AnyFunction;
}

/** A request as the first hook gets it. What nobody has set before is not there. */
function requestWith({ all, fields }: Hooks, request: unknown, options?: object): unknown {
  if (typeof request !== 'object' || request === null) return request;
  for (const { it } of all) for (const name of setBy(it)) Reflect.set(request, name, undefined);
  Object.assign(request, { method: 'POST', id: randomUUID() }, fields);
  if (options === undefined) return request;
  const config: object = { ...Reflect.get(options, 'config') };
  return Object.assign(request, { routeOptions: { ...options, config }, routeConfig: config });
}

/** What a function sets of its first parameter. */
function setBy(it: AnyFunction): readonly string[] {
  const text = it.toString();
  const [, first = ''] = /^(?:async\s*)?(?:function\s*[\w$]*\s*)?\(?\s*([\w$]+)/.exec(text) ?? [];
  if (first === '') return [];
  const sets = new RegExp(
    String.raw`(?<![\w$.])${first.replaceAll('$', String.raw`\$`)}\.(\w+)\s*(?:\?\?)?=(?![=>])`,
    'g',
  );
  return [...text.matchAll(sets)].map(([, name = '']) => name);
}

interface Exchange {
  readonly request: unknown;
  readonly reply: unknown;
}

/** Plays one request: what is called before its handler, the handler, and when that has answered what is called after it. */
async function playedRequest(
  { all }: Hooks,
  { request, reply }: Exchange,
  handle: (reply: unknown) => unknown,
): Promise<unknown> {
  const answer = (typeof reply === 'object' && reply !== null ? reply : responseOf().it) as Answer;
  const sent = new Promise<null>((resolve) => answer.once('finish', () => resolve(null)));
  const calls = async (events: readonly string[], told?: unknown): Promise<unknown> => {
    let payload = told;
    for (const event of events)
      for (const hook of all.filter((it) => it.event === event)) {
        const more = OF_PAYLOAD.includes(event) || event === 'onError' ? [payload] : [];
        const given: unknown = await called(hook.it, [request, answer, ...more], events === BEFORE ? sent : null);
        if (OF_PAYLOAD.includes(event)) payload = given ?? payload;
        if (events === BEFORE && answer.sent) return payload;
      }
    return payload;
  };
  // By then the client has its answer.
  const responds = (): Promise<unknown> => calls(['onResponse']).catch(() => undefined);
  try {
    await calls(BEFORE);
    const done = answer.sent ? undefined : (async () => handle(answer))();
    done?.catch(() => {});
    await calls(['preSerialization', 'onSend'], await Promise.race([done, sent]));
    await responds();
    return await done;
  } catch (error) {
    await calls(['onError'], error).catch(() => undefined);
    await calls(['onSend'], '').catch(() => undefined);
    await responds();
    throw error;
  }
}

interface Answer {
  readonly sent: boolean;
  once(event: string, listener: () => void): void;
}

/** Calls a hook: one that has a parameter more than it is given is given a callback. */
function called(it: AnyFunction, given: readonly unknown[], sent: Promise<null> | null): Promise<unknown> {
  if (it.length <= given.length) return Promise.resolve(it(...given));
  const told = new Promise((resolve, reject) => {
    it(...given, (error: unknown, value: unknown) => (error ? reject(error) : resolve(value)));
  });
  // Who has answered does not go on.
  return sent === null ? told : Promise.race([told, sent]);
}
