import { readHoldEnd } from '../libraries/lock-under-test.js';
import { as, type ProcessContext } from '../libraries/runtime/owner.js';
import { type Callable, membersOf, methodsOf } from './callables.js';
import { isClass } from './classes.js';
import { asking, withoutAborts, withoutLatches } from './latches.js';
import type { RefusalSign } from './plan.js';
import type { Terms } from './terms.js';
import type { Trial } from './trial.js';
import { isUnknown } from './unknown.js';

/** What an acquisition has given, and how to release it. */
export interface HeldByFile {
  readonly trial: Trial;
  /** What the file's own function returned, or handed to the work; what an extension returned takes its place. */
  result: unknown;
  /** The TTL that was asked for, ms. */
  readonly ttlMs: number;
  /** What the function that acquired is a method of, or is found beside. */
  readonly owner: unknown;
  /** What a leader tells of its terms, and a lock of its end. */
  readonly terms?: Terms | undefined;
  /** Ends the work: with an error, it throws. */
  leave(error?: Error): Promise<unknown>;
  readonly signal?: AbortSignal;
  expiresAt?: number;
  isHeld?: () => boolean;
  /** Closes the connection of the request, as its client may. */
  hangUp?: () => void;
  /** Extends it; left out where it cannot be extended. */
  extend?: (ttlMs: number) => Promise<boolean>;
  /** Acquires again in the asynchronous context of the work. */
  reenter?: () => Promise<HeldByFile | null>;
}

const RELEASES = [
  'release',
  'unlock',
  'free',
  'dispose',
  'done',
  'end',
  'close',
  'stop',
  'leave',
  'drop',
  'giveBack',
  'releaseLock',
];

/** What releases a lock, of what its acquisition gave: that itself, or a method of it; `null` for none. */
export function releaserIn(result: unknown): Callable | null {
  if (isUnknown(result)) return null;
  if (typeof result === 'function') return result as Callable;
  if (typeof result !== 'object' || result === null) return null;
  const methods = methodsOf(result);
  const named =
    RELEASES.find((name) => methods.has(name)) ?? [...methods.keys()].find((it) => /^(?:release|unlock)/.test(it));
  if (named !== undefined) return methods.get(named) ?? null;
  // Node 18 has no such symbols by itself.
  const symbols = [Symbol.asyncDispose, Symbol.dispose].filter((it) => it !== undefined);
  for (const symbol of symbols) {
    const dispose: unknown = Reflect.get(result, symbol);
    if (typeof dispose === 'function') return dispose as Callable;
  }
  return null;
}

/** What says whether a lock is held, and which answer says so: a method, or a getter. */
const PREDICATES: readonly (readonly [string, boolean])[] = [
  ['isValid', true],
  ['valid', true],
  ['alive', true],
  ['isHeld', true],
  ['stillValid', true],
  ['stillHeld', true],
  ['isExpired', false],
  ['hasExpired', false],
  ['expired', false],
];

/** Names of what else says by the clock that a lock is over. */
const SAYS_OVER = /expired|lost|over|gone|dead|ended|stale|aborted|closed|late|done|past/i;

/** What says for how long it is held still. */
const REMAINS = ['remainingMs', 'remainingTime', 'timeLeft', 'timeLeftMs', 'msLeft'];

/** No lock is taken for longer, ms: what is further from the time that a clock shows is not of that clock. */
const LONGEST_MS = 86_400_000;

/** What was acquired; what it was acquired of, which may be asked about it; and the process that holds it. */
interface Acquired {
  readonly result: unknown;
  readonly of: Readonly<Record<string, unknown>>;
  readonly process: ProcessContext;
}

/**
 * What tells at each instant whether a lock is held, as far as its author's code does; `null` where nothing says so.
 *
 * @param alsoFlags - What says so without a clock counts, too: somebody keeps it true.
 */
export function beliefOf(lock: Acquired, alsoFlags: boolean): (() => boolean) | null {
  const { result, process } = lock;
  if (typeof result === 'function')
    return msLeft(result as () => unknown) ?? checkOf(result as Callable, process, alsoFlags);
  if (!isThing(result)) return null;
  const nowMs = process.wallMs();
  const own = readHoldEnd(result, nowMs, Number.NaN);
  if (Number.isFinite(own)) return untilField(result, own, process);
  const asked = askedOf(lock, alsoFlags);
  if (asked !== null) return asked;
  for (const name of ['validity', 'validityTime', 'validityMs']) {
    const forMs: unknown = Reflect.get(result, name);
    if (typeof forMs === 'number') return () => process.wallMs() < nowMs + forMs;
  }
  return null;
}

/**
 * The same of a lock that nobody extends, as far as it compares the time when it is asked. It may count on the whole of its
 * TTL: no allowance for drift is asked of it.
 *
 * @param allowanceMs - The clock that it is shown is ahead by this.
 */
export function comparedBeliefOf(lock: Acquired, allowanceMs: number): (() => boolean) | null {
  const { process } = lock;
  const ahead = Object.create(process, {
    wallMs: { value: () => process.wallMs() + allowanceMs },
    monotonicUs: { value: () => process.monotonicUs() + allowanceMs * 1000 },
  }) as ProcessContext;
  const asked = askedOf({ ...lock, process: ahead }, false);
  return asked === null ? null : () => as(ahead, asked);
}

/** What says so when it is asked: what it says by a field or a signal, as long as what looks at the clock says so, too. */
function askedOf(lock: Acquired, alsoFlags: boolean): (() => boolean) | null {
  const { result, process } = lock;
  if (!isThing(result)) return null;
  const own = (nowMs: number): number => readHoldEnd(result, nowMs, Number.NaN);
  const says = Number.isNaN(own(0)) ? null : (): boolean => own(process.wallMs()) > process.wallMs();
  if (says !== null && readsClock(process, () => own(0))) return says;
  const asked = askedByName(lock, alsoFlags && says === null);
  if (says === null || !alsoFlags) return asked;
  return asked === null ? says : () => says() && asked();
}

function askedByName({ result, of, process }: Acquired, alsoFlags: boolean): (() => boolean) | null {
  if (!isThing(result)) return null;
  const reads = (ask: () => unknown): boolean => alsoFlags || readsClock(process, ask);
  for (const [name, whenHeld] of PREDICATES) {
    for (const [at, given] of [
      [result, []],
      [of, [result]],
    ] as const) {
      const ask = questionOf(at, name, given);
      if (ask() === whenHeld && reads(ask)) return () => ask() === whenHeld;
    }
  }
  for (const name of REMAINS) {
    const left = (): unknown => answerOf(result, name);
    if (typeof left() === 'number' && readsClock(process, left)) return () => Number(left()) > 0;
  }
  for (const name of answersOf(result).keys()) {
    const ask = (): unknown => answerOf(result, name);
    // What throws where it is over passes where it is held, whatever its name says.
    const whenHeld = throws(Reflect.get(result, name), name) || !SAYS_OVER.test(name);
    const isFlag = alsoFlags && SAYS_OVER.test(name) && ask() === false;
    if (isFlag || readsClock(process, ask)) return () => ask() === whenHeld;
  }
  return null;
}

function isThing(result: unknown): result is object {
  return typeof result === 'object' && result !== null && !isUnknown(result);
}

/** Asks a method, if it takes as much, or a getter. */
function questionOf(at: object, name: string, given: readonly unknown[]): () => unknown {
  return () =>
    asking(() => {
      const says: unknown = Reflect.get(at, name);
      if (typeof says !== 'function') return given.length === 0 ? says : undefined;
      return says.length === given.length ? Reflect.apply(says, at, given) : undefined;
    });
}

/** By the clock that its time is of. */
function untilField(result: unknown, own: number, process: ProcessContext): (() => boolean) | null {
  const clocks = [() => process.wallMs(), () => process.monotonicUs() / 1000];
  for (const clock of clocks)
    if (Math.abs(own - clock()) < LONGEST_MS)
      return () => readHoldEnd(result, clock(), Number.NEGATIVE_INFINITY) > clock();
  return null;
}

/** Whether what is asked looks at a clock of its process. */
function readsClock(process: ProcessContext, ask: () => unknown): boolean {
  let reads = false;
  const noting = (clock: () => number) => () => {
    reads = true;
    return clock();
  };
  const watched = Object.create(process, {
    wallMs: { value: noting(() => process.wallMs()) },
    monotonicUs: { value: noting(() => process.monotonicUs()) },
  }) as ProcessContext;
  as(watched, ask);
  return reads;
}

/** A function that work is handed may tell how many ms are left. */
function msLeft(told: () => unknown): (() => boolean) | null {
  const text = Function.prototype.toString.call(told);
  if (!/\bnow\(\)/.test(text) || /\bawait\b|\bthen\(/.test(text)) return null;
  const left = (): unknown => told();
  return typeof left() === 'number' ? () => Number(left()) > 0 : null;
}

/** A function that work is handed may throw where the lock is over, or say whether it is. */
function checkOf(told: Callable, process: ProcessContext, alsoFlags: boolean): (() => boolean) | null {
  const counts = (ask: () => unknown): boolean => alsoFlags || readsClock(process, ask);
  const passesNow = (): boolean => passes(told, undefined);
  if (onlyThrows(told, alsoFlags ? 'check' : told.name)) return counts(passesNow) && passesNow() ? passesNow : null;
  if (!onlyLooks(told)) return null;
  const answer = (): unknown => asking(() => told());
  const now = answer();
  return typeof now === 'boolean' && counts(answer) ? () => answer() === now : null;
}

/** What ends or extends a lock, by its name, whatever it looks like. */
const CHANGES =
  /^_?(?:release|unlock|free|give|drop|extend|renew|refresh|stop|end|close|cancel|abort|quit|leave|yield|return|done|dispose|destroy|clear|remove|resign)(?![a-z])/;

/** What a function that is asked does not do: wait, and have an effect elsewhere. */
const SENDS =
  /\bawait\b|\bnew Promise\b|\.(?:then|catch|emit|set|del|eval|delete|push|apply)\(|(?:clear|set)(?:Timeout|Interval)\(|(?:[cC]lient|[rR]edis|[vV]alkey|[cC]onnection)\??\.\w+\(/;

/** What a function that only looks does not do besides. */
const CHANGES_STATE = /[^=!<>]=[^=>]|\+\+|--/;

/** Whether a function does more than read, and set a flag on a condition. */
function acts(text: string): boolean {
  const told = withoutLatches(text).replace(/\b(?:const|let)\s+\w+\s*=/g, '');
  return SENDS.test(told) || CHANGES_STATE.test(told);
}

/** Classes are not asked, and what returns nothing answers nothing: a `close()` that only calls another. */
function onlyLooks(it: Callable): boolean {
  const text = Function.prototype.toString.call(it);
  const returns = it.length === 0 && /\breturn\b|=>\s*[^{\s]/.test(text);
  return returns && !isClass(it) && !/^async\b/.test(text) && !acts(text);
}

/** What throws where a lock is over, by its name. */
const CHECKS = /^_?(?:check|assert|ensure|verify|require|throwIf|throwUnless|guard|still|must)/;

const THROWS = /\bthrow(?:IfAborted)?\b/;

/** Whether all that a function does is to throw, or not. */
function onlyThrows(it: Callable, name: string): boolean {
  const text = Function.prototype.toString.call(it);
  const isAsked = it.length === 0 || COMPARES_LEAST.test(text);
  return CHECKS.test(name) && isAsked && THROWS.test(text) && !/^async\b/.test(text) && !acts(text);
}

/** The only parameter says how much has to be left: `ensure(ms)`, which compares that. */
const COMPARES_LEAST = /^[^(]*\(\s*(\w+)\s*\)[\s\S]*(?:[<>]=?\s*\1\b|\b\1\s*[<>])/;

const COMMENT = /\/\/[^\n]*|\/\*[\s\S]*?\*\//g;

/** What begins with a condition on which it throws: what it is for comes after that. */
const BEGINS_WITH_CHECK = /^[^{]*\{\s*if\s*\([^;{}]*\)\s*\{?\s*throw\b/;

/** Whether a function throws before it does anything else, or does what can be done again: it sends nothing, and waits for nothing. */
function throwsFirst(it: Callable): boolean {
  const text = Function.prototype.toString.call(it).replace(COMMENT, '');
  return it.length === 0 && BEGINS_WITH_CHECK.test(text) && !/^async\b/.test(text) && !SENDS.test(text);
}

/** Whether it is a function that answers by throwing, or not. */
function throws(it: unknown, name: string): boolean {
  if (typeof it !== 'function') return false;
  return onlyThrows(it as Callable, name) || (!CHANGES.test(name) && throwsFirst(it as Callable));
}

/** A first parameter that says how much has to be left, with its default: `ensure(needMs = 1_000)`. */
const TAKES_LEAST = /^(?:async\s+|function\s*|[\w$#]+\s*)?\(\s*\w+\s*=\s*[\d_.]+\s*\)/;

/** Whether a function does not throw, where it is asked for no time that is left. */
function passes(it: Callable, value: unknown): boolean {
  const least = it.length === 1 || TAKES_LEAST.test(Function.prototype.toString.call(it)) ? [0] : [];
  try {
    asking(() => withoutAborts(() => it.call(value, ...least)));
    return true;
  } catch {
    return false;
  }
}

/** What can be asked of a value for yes or no, and says so now: its fields, getters, and methods that only look. */
export function answersOf(value: unknown): Map<string, boolean> {
  const found = new Map<string, boolean>();
  if (typeof value !== 'object' || value === null || isUnknown(value)) return found;
  for (const name of membersOf(value)) {
    const answer = answerOf(value, name);
    if (typeof answer === 'boolean') found.set(name, answer);
  }
  return found;
}

/** The answer of a value to a question by its name; `undefined` where it is none. */
export function answerOf(value: unknown, name: string): unknown {
  const says: unknown = asking(() => Reflect.get(value as object, name));
  if (typeof says !== 'function') return says;
  if (throws(says, name)) return passes(says as Callable, value);
  return onlyLooks(says as Callable) && !CHANGES.test(name) ? asking(() => says.call(value)) : undefined;
}

const REFUSALS = [
  'acquired',
  'ok',
  'success',
  'locked',
  'held',
  'isLocked',
  'granted',
  'obtained',
  'isAcquired',
  'gotLock',
  'won',
];

/** Whether what an acquisition gave says that there is no lock. @param voidHolds - Nothing says that there is one. */
export function isRefusal(result: unknown, voidHolds: boolean, sign: RefusalSign | null = null): boolean {
  if (result === undefined) return !voidHolds;
  if (result === null || result === false || result === 0 || result === '' || result instanceof Error) return true;
  if (sign !== null && saidIn(result, sign.field) === sign.value) return true;
  if (Array.isArray(result)) return result.length === 0 || isRefusal(result[0], false);
  if (typeof result !== 'object') return false;
  return REFUSALS.some((name) => Reflect.get(result, name) === false || Reflect.get(result, name) === null);
}

function saidIn(result: unknown, field: string | null): unknown {
  if (field === null) return result;
  return typeof result === 'object' && result !== null ? Reflect.get(result, field) : undefined;
}

/** What tells an acquisition that was refused from one that was granted, where two that were refused give the same. */
export function refusalIn(granted: unknown, [one, two]: readonly [unknown, unknown]): RefusalSign | null {
  const isObject = (it: unknown): it is object => typeof it === 'object' && it !== null;
  const fields = isObject(one)
    ? [...new Set([one, granted].filter(isObject).flatMap((it) => Object.keys(it)))]
    : [null];
  for (const field of fields) {
    const value = saidIn(one, field);
    if (value === saidIn(two, field) && value !== saidIn(granted, field) && saysNo(value)) return { field, value };
  }
  return null;
}

/** Whether a value may say no: most numbers, as of a time that was waited for, say something else. */
function saysNo(value: unknown): boolean {
  if (typeof value === 'number') return value <= 0;
  return value === undefined || value === null || typeof value === 'boolean' || typeof value === 'string';
}

/** Whether an extension has returned what takes the place of the lock: all that this has. */
export function isLike(said: unknown, before: unknown): boolean {
  if (typeof said !== 'object' || said === null || typeof before !== 'object' || before === null) return false;
  return said !== before && Object.keys(before).every((name) => name in said);
}
