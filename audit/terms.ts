import { current, type ProcessContext } from '../libraries/runtime/owner.js';
import type { Sign } from './plan.js';
import { signalsIn } from './signals.js';
import { calls, isUnknown, QUIET } from './unknown.js';

/** What a leader has told by one name: the place of that among all that it has told, and the signal that it has handed over. */
interface Told {
  readonly at: number;
  readonly signal: AbortSignal | undefined;
  /** What else it has handed over that says by the clock whether the term lasts; `null` for nothing. */
  readonly lasts: (() => boolean) | null;
}

/** What says by the clock that a term lasts, of what a leader hands over with it; `null` for nothing. */
type ReadLasting = (told: readonly unknown[]) => (() => boolean) | null;

/** What tells that a term begins; that a lock is lost; and that it is given up, by a word of its name. */
const BEGINS =
  /\b(?:elected|promoted?|acquired?|became|become|gained?|won|lead(?:er|ing|ership)?(?: start(?:ed)?)?|active|master|primary)\b/;
const LOST =
  /\b(?:demoted?|lost|lose|loses|loss|deposed?|revoked?|abort(?:ed)?|compromised|evicted|expired?|expires|standby|passive|unelected|follow(?:er|ing)?|leader(?:ship)? (?:stop(?:ped)?|end(?:ed)?)|stop(?:s|ped)? leading)\b/;
const GIVEN_UP = /\b(?:releas(?:ed?|ing)|resign(?:ed)?|step(?:ped)? down|retired?|yield(?:ed)?|relinquish(?:ed)?)\b/;

/** What begins to campaign, by its name. */
export const CAMPAIGNS: RegExp =
  /^_?(?:start|begin|run|join|launch|init|boot|campaign|participate|enable|elect|listen)(?![a-z])|^on(?:Module|Application)(?:Init|Bootstrap)$/;

/** The words of a name: `on leader lost` of `onLeaderLost`. */
function wordsOf(name: string): string {
  return name
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .replaceAll(/[^A-Za-z]+/g, ' ')
    .toLowerCase();
}

const isLoss = (name: string): boolean => LOST.test(wordsOf(name));
const isEnd = (name: string): boolean => isLoss(name) || GIVEN_UP.test(wordsOf(name));
const isBegin = (name: string): boolean => !isEnd(name) && BEGINS.test(wordsOf(name));

/** Whether a function that is handed over is called to tell of a term, by its name: `onElected`. */
export function tellsTerm(name: string): boolean {
  return /^_?on[A-Z]/.test(name) && (isBegin(name) || isEnd(name));
}

/** What a leader tells of its terms, and a lock of its end: by the functions that it is handed, and by its events. */
export class Terms {
  private readonly told = new Map<string, Told>();
  private count = 0;
  /** Something was handed over, or is listened to, by which the end of a lock can be told. */
  private canEnd = false;

  private readonly lasting: ReadLasting;

  constructor(lasting: ReadLasting) {
    this.lasting = lasting;
  }

  note(name: string, told: readonly unknown[]): void {
    if (!isBegin(name) && !isEnd(name)) return;
    this.count += 1;
    const lasts = isBegin(name) ? this.lasting(told) : null;
    this.told.set(name, { at: this.count, signal: signalsIn(told)[0], lasts });
  }

  /** An end can be told from now on. */
  hears(): void {
    this.canEnd = true;
  }

  /** How much was told so far. */
  get soFar(): number {
    return this.count;
  }

  /** What tells of terms: that one has begun was told before, and that it has ended since then, or by a signal. */
  signSince(before: number): Sign | null {
    const latest = [...this.told].sort(([, a], [, b]) => b.at - a.at);
    const begins = latest.filter(([it, { at }]) => at <= before && isBegin(it));
    // A signal says by itself that the term is over.
    const [name, begun] = begins.find(([, { signal }]) => signal !== undefined) ?? begins[0] ?? [];
    const [ends = null] = latest.find(([it, { at }]) => at > before && isEnd(it)) ?? [];
    if (name === undefined || (ends === null && begun?.signal?.aborted !== true)) return null;
    return { of: 'told', name, ends, whenHeld: true };
  }

  /** Whether the last that was told is that a term has begun. A term may end in more than one way. */
  isLeading({ name }: Sign): boolean {
    const begun = this.told.get(name);
    if (begun === undefined || begun.signal?.aborted === true || begun.lasts?.() === false) return false;
    return !this.hasTold(isEnd, begun.at);
  }

  /**
   * What says, from now on, that no loss was told; `null` where none can be. Several locks of one object may tell by it that they are
   * given up, which their holders know.
   */
  untilLost(): (() => boolean) | null {
    const from = this.count;
    return this.canEnd ? () => !this.hasTold(isLoss, from) : null;
  }

  private hasTold(what: (name: string) => boolean, after: number): boolean {
    return [...this.told].some(([name, { at }]) => at > after && what(name));
  }
}

/** Those of the latest campaign of a process. */
const LATEST = new WeakMap<ProcessContext, Terms>();

/** Notes a call of a function of which nothing is known: `options.onElected`. */
function hear(called: string, told: readonly unknown[]): void {
  const terms = current.owner === null ? undefined : LATEST.get(current.owner);
  const name = called.split(' ', 1)[0]?.split('.').at(-1) ?? '';
  // What only has such a name does something else: `client.release()`.
  if (tellsTerm(name)) terms?.note(name, told);
}

/** A function by which a leader tells its terms, or a lock its end. */
export function teller(name: string, terms: Terms | undefined): (...told: readonly unknown[]) => unknown {
  if (isEnd(name)) terms?.hears();
  return (...told) => {
    terms?.note(name, told);
    const [signal] = signalsIn(told);
    return isBegin(name) && signal !== undefined && !signal.aborted ? untilAborted(signal) : QUIET;
  };
}

/** The same value, which a leader may call for as long as it leads: it is told by a signal when that is over. */
export function dutyIn(value: unknown, given: { readonly leads?: boolean; readonly terms?: Terms }): unknown {
  const { leads, terms } = given;
  if (leads !== true || typeof value !== 'function') return value;
  const apply = (it: typeof value, self: unknown, told: readonly unknown[]): unknown => {
    const [signal] = signalsIn(told);
    if (signal === undefined || signal.aborted) return Reflect.apply(it, self, told);
    terms?.note('lead', told);
    return untilAborted(signal);
  };
  return new Proxy(value, { apply });
}

/** Who leads works until its term is over, where it is told that. */
function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

/** A method that keeps what it is handed, to call that later: `onLost(listener) { this.listeners.push(listener); }`. */
function keepsListener(it: (...given: never[]) => unknown): boolean {
  const text = Function.prototype.toString.call(it);
  const [, name] = /^[^(]*\(?\s*(\w+)/.exec(text.replace(/^(?:async\s+)?(?:function\b\s*)?\w*\s*(?=\()/, '')) ?? [];
  return it.length === 1 && new RegExp(`(?:\\.(?:push|add|on|once|then)\\([^)]*|=\\s*)\\b${name}\\b`).test(text);
}

/** What an object has by which it tells its end, by its own names and those of its class. */
function tellers(target: object): string[] {
  const names = new Set<string>();
  for (let at: object | null = target; at !== null && at !== Object.prototype; at = Reflect.getPrototypeOf(at))
    for (const name of Object.getOwnPropertyNames(at)) names.add(name);
  return [...names].filter(isLoss);
}

/** Notes the end that something tells: a promise, `lock.lost` that is one, `lock.onLost(…)`, and `lock.onLost = …`. */
function hearEnd(process: ProcessContext, target: unknown, terms: Terms): void {
  if (typeof target !== 'object' || target === null || isUnknown(target)) return;
  const fromMs = process.wallMs();
  // What is settled already tells something else.
  const told = (): void => {
    if (process.wallMs() > fromMs) terms.note('lost', []);
  };
  const waits = (it: unknown): boolean => {
    if (!(it instanceof Promise)) return false;
    it.then(told, told);
    return true;
  };
  const isHeard = (name: string): boolean => {
    const value: unknown = Reflect.get(target, name);
    if (waits(value)) return true;
    if (!/^on[A-Z]/.test(name)) return false;
    if (value === null || value === undefined) return Reflect.set(target, name, told);
    if (typeof value !== 'function' || !keepsListener(value as () => unknown)) return false;
    Reflect.apply(value, target, [told]);
    return true;
  };
  if (waits(target) || tellers(target).filter(isHeard).length > 0) terms.hears();
}

/** Notes from now on what a process tells by functions that it was handed, and what `target` tells, where that can. */
export function listenTo(process: ProcessContext, target: unknown, terms: Terms): void {
  LATEST.set(process, terms);
  calls.listeners.add(hear);
  hearEnd(process, target, terms);
  if (typeof target !== 'object' || target === null || Object.hasOwn(target, 'emit')) return;
  const [emit, on] = ['emit', 'on'].map((name): unknown => Reflect.get(target, name));
  if (typeof emit !== 'function' || typeof on !== 'function') return;
  terms.hears();
  const emits = (name: unknown, ...told: readonly unknown[]): unknown => {
    if (typeof name === 'string') terms.note(name, told);
    return Reflect.apply(emit, target, [name, ...told]) as unknown;
  };
  Object.defineProperty(target, 'emit', { value: emits, configurable: true, writable: true });
}
