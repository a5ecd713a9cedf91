import { current } from '../libraries/runtime/owner.js';
import { decorates, noteInjected } from './classes.js';
import { formFor } from './forms.js';
import { becomesOf, besides, firstOf, handlerIn, keep, listens } from './handed-functions.js';
import { noteHooks } from './hooks.js';
import { leftOf } from './nothing-left.js';
import type { Parameter } from './parameter.js';
import type { CheckedType } from './required.js';
import { settingAt, settingIn } from './service-settings.js';
import { limited, signalsIn } from './signals.js';
import { isSignature } from './signatures.js';
import { namedByStatement, nothingOf } from './statements.js';
import { COUNTS_THEM, countOf, IS_COUNT, IS_OVER, isQuantity } from './value-names.js';

const IS_UNKNOWN = Symbol('unknown');

/** Calls of one function in one acquisition, for each element of a list. Who calls it more often does so until nothing is left. */
export const MOST_CALLS = 32;

/** Lists of more elements are long. */
const LONG_LIST = 100;

/** After so many calls of one name in an acquisition nothing is left: one for each element of a long list, or several of a short one. */
function mostCalls(): number {
  const { elements: length } = calls;
  return length > LONG_LIST ? length + MOST_CALLS : length * MOST_CALLS;
}

/** What is said of calls of functions that stand for what is not known. */
interface Calls {
  /** Receives the arguments and the name of each. */
  heard: ((given: readonly unknown[], name: string) => void) | null;
  /** Called at each. */
  readonly listeners: Set<(name: string, told: readonly unknown[]) => void>;
  /** What is awaited with each: its work, by its arguments and name. Nothing where it is `null`. */
  takes: ((given: readonly unknown[], name: string) => Promise<void>) | null;
  /** Elements of each list. */
  elements: number;
  /** Names in each list of names that a function is given. */
  names: number;
  /** What looks for something finds it; the first look of a task does not where this is `later`. */
  finds: boolean | 'later';
  /** As a number, what a call gives now is this. Default: 1. */
  number: (() => number) | null;
  /** Names of properties that files require to be of a type, with that. */
  types: Pick<ReadonlyMap<string, CheckedType>, 'get'>;
  /** What functions are given that has to be another text than something else, by its path: `input.toId`. */
  unequal: ReadonlySet<string>;
  /** Told when what runs a function that it is handed begins, and when that has ended: a transaction. */
  ran: ((name: string, isOver: boolean) => void) | null;
  /** The signature of each request; `null` where files check none. */
  signature: string | null;
  /** The path of a request for such a thing, with its origin; `null` where files match none. */
  path: ((about: string) => string) | null;
  /** The body of a request for such a thing, as JSON; `null` where files parse none. */
  body: ((about: string) => string) | null;
  /** Files that are not there: the text of one, by its path, and the names of those in a folder. */
  files: { readonly at: (path: string) => string; readonly names: readonly string[] };
}

type AnyFunction = (...given: readonly unknown[]) => unknown;

/** The state that files require a property of this name to have; `undefined` where they require none. */
export function requiredState(name: string): string | undefined {
  const type = calls.types.get(name);
  if (typeof type === 'object' && 'among' in type) return oneOf(type.among, 'a');
  return typeof type === 'object' && 'text' in type ? type.text : undefined;
}

/** One of several texts for a name: another one for the next name. */
function oneOf(texts: readonly string[], name: string): string | undefined {
  const sum = Buffer.from(name).reduce((one, other) => one + other, 0);
  return texts[(sum - 'a'.charCodeAt(0)) % texts.length] ?? texts[0];
}

/** A property of what is not known, or a parameter, where files require a type of it. */
export function requiredValue(
  name: string,
  text: string,
  number: number = 1,
): string | number | readonly unknown[] | null | undefined {
  const signature = signatureAt(name);
  if (signature !== null) return signature;
  const type = calls.types.get(name);
  if (typeof type === 'object' && 'each' in type) return elements(text, number).map(() => formFor(type.each)(text));
  if (typeof type === 'object' && 'among' in type) return oneOf(type.among, text);
  if (typeof type === 'object') return 'text' in type ? type.text : formFor(type.pattern)(text);
  if (type === 'absent') return null;
  return type === undefined
    ? undefined
    : type === 'string'
      ? text
      : type === 'number'
        ? number
        : elements(text, number);
}

/** The signature of a request, where a header or a property of this name has it; else `null`. */
function signatureAt(name: unknown): string | null {
  return typeof name === 'string' && isSignature(name) ? calls.signature : null;
}

/** What is said of such calls at present: a rehearsal sets it. */
export const calls: Calls = {
  heard: null,
  listeners: new Set(),
  takes: null,
  elements: 1,
  names: 1,
  finds: true,
  number: null,
  types: new Map(),
  unequal: new Set(),
  ran: null,
  signature: null,
  path: null,
  body: null,
  files: { at: () => '', names: ['a'] },
};

/** Whether it stands for what is not known. */
export function isUnknown(value: unknown): boolean {
  return pathOf(value) !== null;
}

/** The names by which something was found of which nothing is known: `.members`; `null` for everything else. */
export function pathOf(value: unknown): string | null {
  const path = typeof value === 'function' ? (Reflect.get(value, IS_UNKNOWN) as unknown) : null;
  return typeof path === 'string' ? path : null;
}

/**
 * Stands for what little is known of: an object of which every part is another, that reads as a short text, and has an
 * element, so that what is done for each is done.
 *
 * @param known - Parts that are known.
 * @param text - What it reads as. Default `a`.
 * @param path - The names by which it was found. Default: none.
 * @param typed - What its type says of its parts, and of what it returns. Default: nothing.
 * @param number - What it is as a number. Default: 1.
 */
export function unknownValue(
  known: Readonly<Record<string, unknown>> = {},
  text: string = 'a',
  path: string = '',
  typed: Pick<Parameter, 'fields' | 'type'> = UNTYPED,
  number: number = 1,
): unknown {
  const { fields, type } = typed;
  // Unlike an arrow function, this can be constructed and extended.
  function target(...told: readonly unknown[]): unknown {
    const plain = withoutWork(path, text, told, number);
    if (plain !== WORK) return plain;
    const handed = told.findLast((it): it is AnyFunction => typeof it === 'function' && !isUnknown(it));
    const becomes = handed === undefined ? null : becomesOf(path, told, handed);
    if (handed !== undefined && becomes === 'run') return runs(path, handed, text);
    if (handed !== undefined && becomes === 'begun') return besides(runs(path, handed, text), made);
    const kept =
      becomes === 'kept' ? handed : handed === undefined ? handlerIn(told.filter((it) => !isUnknown(it))) : undefined;
    if (kept !== undefined) keep(path, kept, told);
    if (listens(path, handed) || noteHooks(path, told, () => made)) return made;
    const named = commandIn(path, told) ?? namedByStatement(path, told);
    if (IS_HEAD.test(named) && findsNothing()) throw Object.assign(new Error(named), { name: 'NotFound' });
    calls.heard?.(told, named);
    for (const listener of calls.listeners) listener(named, told);
    const now = calls.number?.() ?? (COUNTS_THEM.test(path) ? 0 : number);
    const about = READS_OUT.test(path) ? toldIn(told) : text;
    const same = now === number && about === text ? made : unknownValue(known, about, path, typed, now);
    const nothing = nothingOf(path, told);
    const isNothing = (LOOKS_FOR.test(path) || nothing !== undefined) && findsNothing();
    const usual = plainOf(type, text, now) ?? (isList(type) ? elements(text, now) : same);
    const given = isNothing ? nothing : leftOf(named, usual, mostCalls());
    if (!isNothing && given === null) return null;
    const ends = (): Promise<void> => calls.takes?.(told, named) ?? Promise.resolve();
    if (handed !== undefined && becomes === 'called-back') return void ends().then(() => handed(null, given), handed);
    if (calls.takes !== null) return awaitable(given, limited(ends, signalsIn(told)));
    if (IS_PROMISE.test(type)) return Promise.resolve(given);
    return isUnknown(given) ? awaitable(given, atOnce) : given;
  }
  const made: unknown = new Proxy(target, {
    construct: (_, told: readonly unknown[], whole) =>
      noted(path, told, whole === made ? unknownValue({}, text, path) : Reflect.construct(Object, [], whole)),
    get: (_, name) => {
      if (name === 'then') return undefined;
      if (name === IS_UNKNOWN) return path;
      if (name === 'prototype') return target.prototype;
      if (name === Symbol.hasInstance) return () => false;
      if (typeof name === 'string' && Object.hasOwn(known, name)) return known[name];
      if (name === Symbol.toPrimitive) return (hint: string) => (hint === 'number' ? number : text);
      if (name === 'toString' || name === 'toJSON') return () => text;
      if (name === 'finally' || name === 'catch') return (handler: () => void) => Promise.resolve(made)[name](handler);
      if (name === Symbol.iterator) return () => elements(text, number).values();
      if (name === Symbol.asyncIterator) return () => oneByOne(elements(text, number));
      const required = settingAs(path, String(name)) ?? requiredValue(String(name), text, number);
      if (required !== undefined) return required;
      if (IS_OVER.test(String(name))) return false;
      if (IS_COUNT.test(String(name))) return number;
      const part = fields.find((it) => it.name === name && it.isFunction);
      const count = countOf(String(name), number);
      const own = isQuantity(String(name)) ? String(count) : text;
      return unknownValue({}, own, `${path}.${String(name)}`, part, count);
    },
    set: () => true,
  });
  return made;
}

/** Of objects of which nothing is known: by which name their class was found, and what they were made of. */
const MADE = new WeakMap<object, { readonly path: string; readonly told: readonly unknown[] }>();

/** What an object was made of, of which nothing is known: `new UpdateCommand({ … })`; `undefined` for everything else. */
export function madeOf(value: unknown): { readonly path: string; readonly told: readonly unknown[] } | undefined {
  return MADE.get(Object(value) as object);
}

/** The same object, with what it is made of noted, and with what that hands over for later. */
function noted(path: string, told: readonly unknown[], made: unknown): object {
  const handler = handlerIn(told.filter((it) => !isUnknown(it)));
  if (handler !== undefined) keep(path, handler);
  MADE.set(made as object, { path, told });
  return made as object;
}

/** What has the variables of an environment besides `process`: `c.env` of a worker. */
const IS_ENVIRONMENT = /(?:^|\.)env$/;

/** A variable of the environment, or a setting, that is read as a property. */
function settingAs(path: string, name: string): string | number | undefined {
  return IS_ENVIRONMENT.test(path) ? process.env[name] : settingIn(path, name);
}

const IS_HEAD = /\.headObject$/;

/** The name of a call that sends a command: `s3.headObject` of a `HeadObjectCommand`; `null` for every other one. */
function commandIn(path: string, [first]: readonly unknown[]): string | null {
  if (!/(?:^|\.)send$/.test(path)) return null;
  const [, initial, rest = ''] = /(?:^|\.)(\w)(\w*)Command$/.exec(madeOf(first)?.path ?? '') ?? [];
  return initial === undefined ? null : path.replace(/send$/, initial.toLowerCase() + rest);
}

/** Tasks that have looked for something. */
const LOOKED = new WeakSet<object>();

/** Whether a look finds nothing. */
function findsNothing(): boolean {
  const task = current.owner?.task ?? null;
  if (calls.finds !== 'later' || task === null) return !calls.finds;
  const isFirst = !LOOKED.has(task);
  LOOKED.add(task);
  return isFirst;
}

/** Stands for what takes work. */
const WORK = Symbol('work');

/** What a call gives that is no work, and that nobody hears of: {@link WORK} for every other one. */
function withoutWork(path: string, text: string, told: readonly unknown[], number: number): unknown {
  noteInjected(path, told);
  if (decorates(told)) return decorated(path, told);
  if (LOGS.test(path)) return undefined;
  const setting = settingAt(path, told);
  if (setting !== undefined) return setting;
  if (/\.getRemainingTimeInMillis$/.test(path)) return LEFT_MS;
  // `ctx.throw(409, 'busy')`.
  if (/\.throw$/.test(path)) throw new Error(String(told.find((it) => typeof it === 'string') ?? told[0]));
  const [, method = ''] = OF_LIST.exec(path) ?? [];
  // What is done for each of a list is done for its elements.
  if (method !== '' && typeof told[0] === 'function' && !isUnknown(told[0])) {
    const all = elements(text, number);
    const done: unknown = Reflect.apply(Reflect.get(Array.prototype, method), all, told);
    // No part of what is not known is equal to anything.
    const isMissed =
      (method === 'find' && done === undefined) || (method === 'filter' && (done as unknown[]).length === 0);
    if (!isMissed || calls.finds !== true) return done;
    return method === 'find' ? all[0] : all;
  }
  const asked = typeof told[0] === 'string' && told.length === 1 ? told[0] : '';
  const isHeader = GETS.test(path) && IS_HEADER.test(asked);
  const isPart = asked !== '' && GETS_PART.test(path);
  const required = isHeader || isPart ? requiredValue(isHeader ? asked.toLowerCase() : asked, text) : undefined;
  return signatureAt(told[0]) ?? required ?? (isHeader ? text : WORK);
}

/** What a platform leaves a function to run, ms. */
const LEFT_MS = 60_000;

/** What reads a thing out of a text: `constructEvent(body)`. */
const READS_OUT = /(?:^|\.)(?:construct|verify|parse|decode|unwrap|deserialize)\w*$/;

/** What it is called that a call is about, where it is told that first. */
function toldIn([first]: readonly unknown[]): string {
  const told = typeof first === 'string' || isUnknown(first) ? String(first) : '';
  return /^[\w:.-]{1,64}$/.test(told) ? told : 'a';
}

/** What is told something, and does nothing with it. */
const LOGS = /(?:^|\.)(?:(?:log(?:ger)?|console)\.\w+|trace|debug|info|warn|fatal|verbose)$/;

/** What gives the value of a header of a request, which is a text. */
const GETS = /(?:^|\.)(?:get|header)$/;
const GETS_PART = /(?:^|\.)(?:param|query|(?:params|searchParams)\.get)$/;
const IS_HEADER = /^[a-z]+(?:-[a-z]+)+$|^authorization$/i;

/** Runs what is handed to something of which nothing is known, as within a transaction. */
async function runs(path: string, handed: AnyFunction, text: string): Promise<unknown> {
  const name = firstOf(handed);
  const ran = `${path}(${name})`;
  calls.ran?.(ran, false);
  try {
    return await handed(unknownValue({}, text, name === '' ? 'tx' : name));
  } finally {
    calls.ran?.(ran, true);
  }
}

/** What runs a method within a transaction, by the name of its decorator. */
const IS_TRANSACTIONAL = /(?:^|\.)Transactional$/;

/** Runs a method within what a decorator of which nothing is known begins and ends. */
function decorated(path: string, [, , descriptor]: readonly unknown[]): undefined {
  const { value } = (descriptor ?? {}) as PropertyDescriptor;
  if (!IS_TRANSACTIONAL.test(path) || typeof value !== 'function') return;
  async function within(this: unknown, ...given: readonly unknown[]): Promise<unknown> {
    return runs(path, () => Reflect.apply(value, this, given), 'a');
  }
  (descriptor as PropertyDescriptor).value = within;
}

/** What looks for something, and may not find it, by its name. */
export const LOOKS_FOR: RegExp =
  /(?:^|\.)(?:find|get|head|load|lookup|has|exists?|existing|is|first|maybe(?:One|First|Single)|oneOrNone)(?![a-z])[^.]*$/;

const OF_LIST = /\.(map|flatMap|forEach|filter|some|every|find|reduce)$/;

const UNTYPED = { fields: [], type: '' } as const;

/** What is more than awaited has the methods of a promise. */
const IS_PROMISE = /^Promise\b/;

/** What a function returns that gives a number or a text; the type of a method is what it returns. */
function plainOf(type: string, text: string, number: number): number | string | undefined {
  const [, plain] = /^(?:Promise(?:Like)?<\s*)?(number|string)\b[\s|]*(?:null|undefined)?\s*>?$/.exec(type) ?? [];
  return plain === 'number' ? number : plain === 'string' ? text : undefined;
}

/** Whether the type of what is returned is that of a list. */
function isList(type: string): boolean {
  return /^(?:Promise(?:Like)?<\s*)?(?:readonly\s+)?(?:[\w.]+|\{[^{}]*\})\[\]\s*>?$|^(?:Promise(?:Like)?<\s*)?(?:Readonly)?Array</.test(
    type,
  );
}

function quiet(): object {
  return QUIET;
}

/** Stands for what is told things, and says nothing: a logger. */
export const QUIET: object = new Proxy(quiet, {
  construct: () => QUIET,
  get: (_, name) => (name === 'then' ? undefined : name === IS_UNKNOWN ? '' : QUIET),
});

/** The elements of a list of which nothing is known. Long lists are gone through a few times, and have none after that. */
export function elements(text: string, number: number = 1): readonly unknown[] {
  const { elements: length } = calls;
  if (length > LONG_LIST && leftOf('a long list', true, MOST_CALLS) !== true) return [];
  return Array.from({ length }, () => unknownValue({}, text, '', UNTYPED, number));
}

/** The elements of a list, for each of which is waited. */
export async function* oneByOne(all: readonly unknown[]): AsyncGenerator<unknown> {
  for (const one of all) {
    await calls.takes?.([], '');
    yield one;
  }
}

const atOnce = (): Promise<void> => Promise.resolve();

/** The same, which takes a time where it is awaited. */
function awaitable(value: unknown, takes: () => Promise<void>): unknown {
  const then = (done?: (it: unknown) => unknown, fail?: (error: unknown) => unknown): Promise<unknown> =>
    takes().then(() => (done === undefined ? value : done(value)), fail);
  return new Proxy(Object(value), {
    get: (it, name) => {
      if (name === 'finally' || name === 'catch') return (handler: () => void) => new Promise(then)[name](handler);
      return name === 'then' ? then : Reflect.get(it, name);
    },
  });
}
