import { type Callable, isAsync, methodsOf, type Shapes } from './callables.js';
import { isClass } from './classes.js';
import { ADDS_HOOKS } from './hooks.js';
import { saysMode } from './modes.js';
import { type Plan, type Step, takerIn } from './plan.js';
import { hasRole, isApplication, isResponse, namesResource } from './roles.js';
import type { Shape } from './shapes.js';
import { isUnknown } from './unknown.js';

const TAKES =
  /^_?(?:try|do|attempt)?_?(?:acquire|lock|obtain|take|claim|grab|get|enter|reserve|begin|start|hold|wait|checkout|own|set)(?:.*(?:lock|lease|mutex|claim|leader\w*|slot))?(?:Once|With\w+|For\w*|OrThrow|OrNull|Async)?$/i;
const GIVES =
  /^_?(?:try|safe|do)?_?(?:release|unlock|free|giveBack|drop|leave|del|delete|remove|end|exit|dispose|close|finish|relinquish|abandon|yield|clear|put|stop|resign|abdicate|stepDown|quit|withdraw|shutdown)(?:.*(?:lock|lease|mutex|key|claim|leader\w*|slot))?(?:Safe|Async)?$/i;
/** Names that acquire, and their opposites, which release. */
const OPPOSITES: readonly (readonly [RegExp, RegExp])[] = [
  [/^_?(?:try)?_?enter/i, /leave|exit/i],
  [/^_?(?:try)?_?(?:begin|start)/i, /end|stop|finish/i],
];
/** Names that say what they acquire, or release: `lockBilling`, `unlockBilling`. */
const TAKES_WHAT =
  /^_?(?:try|Try)?_?(?:[aA]cquire|[lL]ock|[oO]btain|[cC]laim|[gG]rab|[rR]eserve|[oO]wn|[lL]ease|[hH]old|[tT]ake|[eE]nter)(?:[A-Z_]\w*)?$/;
/** Names of which only what they are about says that they acquire it: `openLease`. */
const TAKES_LOCK = /^_?(?:open|request|issue)\w*(?:Lock|Lease|Mutex|Claim|Slot)$/;
const GIVES_WHAT =
  /^_?(?:try|Try)?_?(?:[rR]elease|[uU]nlock|[fF]ree|[rR]elinquish|[dD]isown|[gG]iveBack|[uU]nclaim|[yY]ield|[lL]eave|[eE]xit)(?:[A-Z_]\w*)?$/;
const EXTENDS = /^_?(?:try)?_?(?:extend|renew|refresh|touch|prolong|keepAlive|heartbeat|bump)/i;
const MAKES =
  /^_?(?:create|make|build|new|init|setup|use|define|factory|for|get|of|from|connect|open|instance)(?=[A-Z_]|$)|(?:factory|Factory)$|^(?:lock|mutex|locker|redlock|default|lease|semaphore|elect(?:ion|or)|leader|registry|manager)(?:s|es)?$|(?:Lock|Mutex|Lease|Locker|Semaphore|Registry|Manager|Service|Provider)(?:s|es)?(?:For|Of|On|By)?$|^(?:lock|mutex|lease)(?:For|Of|On|By)$/;
/** Names of what makes something else of the functions that it is handed: `createWorker`. */
const MAKES_OTHER = /^_?(?:create|make|build|new)(?=[A-Z_])/;
/** What has to be called before a lock can be used. */
const OPENS =
  /^_?(?:init|initiali[sz]e|connect|open|start|setup|setUp|boot|bootstrap|ready|prepare|load|configure)(?:[A-Z]\w*)?$|^(?:install|register|define|add|load)(?:Commands|Scripts)$|^on(?:ModuleInit|ApplicationBootstrap)$|^(?:set|use)(?:Redis|Client|Connection)\w*$/;
/** A lock that many may hold, and one beside it that excludes them. */
const SHARES = /read(?:ing|ers?)?|shared/i;
const EXCLUDES = /writ(?:e(?:rs?)?|ing)|exclusive/i;
const LESS_SHARED = 15;
/** What is tried after all else. */
const LAST = -100;
const OF_CLASS = 60;
/** What its functions call, where their own names do not say it. */
const CALLS_SHARED = /\.\w*(?:Shared?|Reader|ReadLock)\w*\(|\b\w+\(\s*['"](?:read|shared)['"]/;
const CALLS_EXCLUSIVE = /\.\w*(?:Exclusive|Writer|WriteLock)\w*\(|\b\w+\(\s*['"](?:write|exclusive)['"]/;
const RUNS = /with|using|lock|exclusive|guard|run|mutex|critical|protect|once|leader|exec|perform|sync/i;

/** A function that may be asked for a lock, with what else goes with it. */
interface Found {
  readonly plan: Plan;
  readonly score: number;
  /** What is written in its function. */
  readonly text: string;
}

/** Makes an object or a function from a factory or a class, of which `owner` has it. */
export type Make = (value: Callable, step: Step, owner: unknown) => Promise<unknown>;

/** What functions are the methods of. */
interface Owner {
  readonly path: readonly Step[];
  readonly value: unknown;
}

/** A function, as it was found. */
interface Candidate {
  readonly name: string;
  /** The name that a person knows. */
  readonly shown: string;
  readonly shape: Shape;
  readonly path: readonly Step[];
  readonly depth: number;
}

/** What a function was found beside. */
interface Group {
  readonly names: readonly string[];
  /** Those that release, the likeliest first. */
  readonly givers: readonly string[];
  readonly extenders: readonly string[];
  readonly object: Owner | null;
}

const MOST_DEPTH = 3;

/** What has not been made or loaded by then is not waited for, ms of simulated time. */
export const MAKING_MS = 2_000;

/** Looks through what a file exports for locks. */
export class Surface {
  private readonly shapes: Shapes;
  private readonly make: Make;
  private readonly found: Found[] = [];
  /** Methods that say which lock their object is. */
  private readonly setters = new Set<string>();

  constructor(shapes: Shapes, make: Make) {
    this.shapes = shapes;
    this.make = make;
  }

  /** Plans for what these values offer, the likeliest first. */
  async plansFor(
    values: ReadonlyMap<string, unknown>,
    kind: 'export' | 'inside',
    begin: readonly string[] = [],
  ): Promise<Plan[]> {
    const functions = new Map<string, Callable>();
    for (const [name, value] of values) {
      const step: Step = { kind, name };
      if (isUnknown(value)) continue;
      if (isClass(value)) {
        const before = this.found.length;
        await this.group(methodsOf(value), () => [step], 0, { path: [step], value });
        // What only the class itself may make is made by one of its functions.
        const isMade =
          this.found.length > before && /\b(?:private|protected) constructor\b/.test(this.shapes.of(value, name).text);
        if (!isMade) await this.made({ value, owner: undefined }, [step], { kind: 'new', name }, 0);
      } else if (typeof value === 'function') functions.set(name, value as Callable);
      else await this.look(value, [step], 0);
    }
    await this.group(functions, (name) => [{ kind, name }], 0);
    return this.found.sort((a, b) => b.score - a.score).map(({ plan }) => ({ ...plan, begin }));
  }

  private async made(
    { value, owner }: { readonly value: Callable; readonly owner: unknown },
    path: readonly Step[],
    step: Step,
    depth: number,
  ): Promise<void> {
    if (depth > MOST_DEPTH) return;
    const never = new Promise((resolve) => setTimeout(resolve, MAKING_MS));
    const made: unknown = await Promise.race([this.make(value, step, owner).catch(() => undefined), never]);
    await this.look(made, [...path, step], depth + 1);
  }

  private async look(value: unknown, path: readonly Step[], depth: number): Promise<void> {
    if (typeof value === 'function')
      await this.group(new Map([['', value as Callable]]), () => path, depth, { path, value: undefined });
    else if (typeof value === 'object' && value !== null && !Array.isArray(value) && !isClient(value))
      await this.group(methodsOf(value), () => path, depth, { path, value });
  }

  /**
   * Looks at functions that belong together.
   *
   * @param object - Where they are methods: of what.
   */
  private async group(
    functions: ReadonlyMap<string, Callable>,
    pathOf: (name: string) => readonly Step[],
    depth: number,
    object: Owner | null = null,
  ): Promise<void> {
    const names = [...functions.keys()];
    const before = this.found.length;
    const gives = (name: string): boolean => GIVES.test(name) || GIVES_WHAT.test(name);
    // Where nothing else could acquire, `close(month)` and `renewCertificate` are no release and no extension.
    const hasOthers = names.some((name) => !gives(name) && !EXTENDS.test(name) && !name.startsWith('#'));
    const givers = hasOthers ? names.filter(gives).sort((a, b) => rank(a) - rank(b)) : [];
    // A function without parameters extends no lock: it refreshes something else.
    const mayExtend = (name: string): boolean =>
      object !== null || this.shapes.of(functions.get(name) as Callable, name).parameters.length > 0;
    const extenders = names.filter((name) => EXTENDS.test(name) && mayExtend(name));
    // Users cannot call a private method.
    const forUsers = extenders.filter((name) => !this.shapes.of(functions.get(name) as Callable, name).isPrivate);
    for (const [name, it] of functions) {
      if (name.startsWith('#')) continue;
      const shown = takerIn({ take: name, path: object?.path ?? [] });
      const shape = this.shapes.of(it, shown);
      if (givers.includes(name)) {
        this.noteChange({ name, shown, shape, path: pathOf(name), depth }, object);
        continue;
      }
      // What refreshes something else is handed that as work.
      if (hasOthers && extenders.includes(name) && !hasRole(shape.parameters, 'work')) {
        this.noteChange({ name, shown, shape, path: pathOf(name), depth }, object);
        continue;
      }
      const isSetter = object !== null && setsName(shape);
      if (isSetter) this.setters.add(name);
      const isUsed = this.noteUses(
        { name, shown, shape, path: pathOf(name), depth },
        { names, givers, extenders: forUsers, object },
      );
      const makes =
        MAKES_OTHER.test(shown) || ADDS_HOOKS.test(shape.text) || (shape.returnsFunction === true && !isAsync(it));
      // `locked(name)(work)`: what was made gives another function.
      const isCurried = name === '' && shape.returnsFunction === true && !isAsync(it);
      if ((isUsed && !makes) || (object !== null && name === '' && !isCurried)) continue;
      if (!MAKES.test(shown) && !isSetter && !makesByShape(shape, it)) continue;
      const path = [...pathOf(name), ...(object === null || name === '' ? [] : [{ kind: 'member', name } as const])];
      await this.made({ value: it, owner: object?.value }, path, { kind: 'call', name }, isCurried ? depth : depth + 1);
    }
    this.noteShared(before);
  }

  /** Of what was found from there on, those that exclude others are told how others read. */
  private noteShared(from: number): void {
    const group = this.found.slice(from).map((it) => ({ ...it, name: takerIn(it.plan) }));
    for (const [i, { plan, score, name, text }] of group.entries()) {
      const isLike = (other: Plan): boolean => other.use === plan.use && other.path.length === plan.path.length;
      const isPair = (other: (typeof group)[number]): boolean =>
        SHARES.test(other.name) &&
        other.name.replace(SHARES, '').toLowerCase() === name.replace(EXCLUDES, '').toLowerCase();
      const named = EXCLUDES.test(name) ? group.find((it) => isLike(it.plan) && isPair(it)) : undefined;
      const isCalled = CALLS_EXCLUSIVE.test(text) && !CALLS_SHARED.test(text);
      const called = isCalled ? group.filter((it) => isLike(it.plan) && CALLS_SHARED.test(it.text)) : [];
      const other = named ?? (called.length === 1 ? called[0] : undefined);
      if (other === undefined) continue;
      this.found[from + i] = { plan: { ...plan, shared: other.plan }, score, text };
      // Who reads is no holder.
      this.found[from + group.indexOf(other)] = { ...other, score: Math.min(other.score, score - LESS_SHARED) };
    }
  }

  /** Notes what releases or extends by its name, and may change something under a lock of its own: `giveBack(seats)`, `renew(loan)`. */
  private noteChange({ name, path, shape }: Candidate, object: Owner | null): void {
    const isHanded = hasRole(shape.parameters, 'held') || hasRole(shape.parameters, 'token');
    if (shape.parameters.length === 0 || isHanded) return;
    const plan = { path, take: object === null ? '' : name, give: null, extend: null, open: null };
    this.found.push({ plan: { ...plan, use: 'handler' }, score: LAST, text: shape.text });
  }

  /** Notes the ways in which a function may be used. @returns Whether it runs work, and so makes nothing. */
  private noteUses({ name, shown, shape, path, depth }: Candidate, group: Group): boolean {
    const { names, givers, extenders, object } = group;
    const { parameters, text } = shape;
    const open = object?.value === undefined ? null : (names.find((it) => OPENS.test(it) && it !== name) ?? null);
    const plan = { path, take: object === null ? '' : name, give: null, extend: null, open };
    const isModal = parameters.some((it) => saysMode(it, this.shapes.modes));
    const asUsed = (used: Plan): Plan => (isModal ? { ...used, shared: { ...used, reads: true } } : used);
    const isNamed = path.some((step) => step.kind === 'member' && this.setters.has(step.name));
    const isShared = SHARES.test(shown) && names.some((it) => EXCLUDES.test(it));
    const less = depth + (name.startsWith('_') ? 20 : 0) + (isShared ? LESS_SHARED : 0);
    const bonus = (isNamed && !parameters.some(namesResource) ? 8 : 0) - less;
    if ((hasRole(parameters, 'work') && !isToldErrors(shape)) || hasRole(parameters, 'descriptor')) {
      // What is handed a lock of the file is one way to use that; its own methods say more of it.
      const isUse = object === null && parameters.some(({ type }) => this.shapes.hasClass(type));
      const score = (isUse ? 50 : 100) + (RUNS.test(shown) ? 10 : 0) + bonus;
      this.found.push({ plan: asUsed({ ...plan, use: 'with' }), score, text });
      return true;
    }
    const takes = isTaker(shown) || (object !== null && name === '' && parameters.some(namesResource));
    if (takes) {
      const opposite = OPPOSITES.find(([one]) => one.test(name))?.[1];
      const like = givers.filter((other) => whatOf(other) === whatOf(name));
      const give = like.find((other) => opposite?.test(other)) ?? like[0] ?? givers[0] ?? null;
      const extend = extenders[0] ?? null;
      const score =
        (give === null ? 60 : 80) + (/acquire|obtain|lock/i.test(shown) ? 10 : 0) - (/^try/i.test(shown) ? 1 : 0);
      // What only its class may call is tried after all that others may.
      const own = shape.isPrivate ? score - OF_CLASS : score;
      this.found.push({ plan: asUsed({ ...plan, use: 'pair', give, extend }), score: own + bonus, text });
    }
    const isHandler = /handle|run|job|cron|process|tick|main|work|POST|GET|execute|nightly|sync/i.test(shown);
    const score = takes || MAKES.test(shown) ? 10 : shape.isPrivate ? 20 : isHandler ? 45 : 40;
    this.found.push({ plan: { ...plan, use: 'handler' }, score: score + bonus, text });
    return false;
  }
}

/** Starts what is handed the function that does a job: a worker of BullMQ, a consumer of Kafka or RabbitMQ, a scheduler. */
const STARTS_WORKER =
  /\bnew (?:\w+\.)?Worker\s*[<(]|\.run\(\s*\{[^}]*\beach(?:Message|Batch)\b|\.consume\(|\.(?:schedule|scheduleJob)\(\s*['"`]/;

/** Whether a function gives something that has the lock's functions, by what it takes, returns and starts. */
function makesByShape({ parameters, returnsFunction, text }: Shape, it: Callable): boolean {
  if (parameters.some(isApplication)) return true;
  const adds = STARTS_WORKER.test(text) || ADDS_HOOKS.test(text);
  if ((returnsFunction === true && !isAsync(it)) || adds) return true;
  if (hasRole(parameters, 'client') && !hasRole(parameters, 'key')) return true;
  return hasRole(parameters, 'clients') || hasRole(parameters, 'urls');
}

/** Whether a handler calls what comes next with an error alone: its work is its own. */
function isToldErrors({ parameters, text }: Shape): boolean {
  const goesOn = /\bnext\(\s*\)|\(\s*next\s*[,)]|\breturn next\b(?!\()/.test(
    text.slice(text.indexOf('{')).replace(/catch\(\s*next\s*\)/g, ''),
  );
  return parameters.some(isResponse) && parameters.some(({ name }) => name === 'next') && !goesOn;
}

/** Whether a method says which lock an object is, and gives that object. */
function setsName({ parameters, text }: Shape): boolean {
  return parameters.some(namesResource) && /\breturn this\s*[;}]/.test(text);
}

/** The functions that may have to be called before all else, of those that a file exports. */
export function openersIn(values: ReadonlyMap<string, unknown>): string[] {
  return [...values].filter(([name, it]) => typeof it === 'function' && OPENS.test(name)).map(([name]) => name);
}

/** Whether a function acquires, by its name. */
export function isTaker(name: string): boolean {
  return [TAKES, TAKES_WHAT, TAKES_LOCK].some((it) => it.test(name));
}

/** What a function acquires or releases, by its name: `Billing` of `lockBilling`. */
function whatOf(name: string): string {
  return name.replace(/^_?(?:try|do|attempt)?_?[a-zA-Z][a-z]*/, '');
}

function rank(name: string): number {
  return /release|unlock/i.test(name) ? 0 : /free|drop|give/i.test(name) ? 1 : 2;
}

/** Clients of Redis are no locks, whatever they can do. */
function isClient(value: object): boolean {
  return ['hgetall', 'hGetAll', 'lpush', 'lPush', 'zadd'].some(
    (name) => typeof Reflect.get(value, name) === 'function',
  );
}
