import type { NodeAddress } from '../libraries/net/addresses.js';
import { argumentsFor } from './arguments.js';
import { callOf, type Target } from './call.js';
import { type Callable, isClass, Shapes } from './callables.js';
import type { ClientMaker } from './clients.js';
import { placesFor, queriesIn } from './environment.js';
import type { Given } from './given.js';
import type { Parameter } from './parameter.js';
import type { Step } from './plan.js';
import { type Exports, exportsOf, hasOwnConnections, insideOf, type Program } from './program.js';
import { roleOf } from './roles.js';
import type { Said } from './said.js';
import type { Make } from './surface.js';
import { FIRST_TTL_MS } from './units.js';
import type { Wire } from './wire.js';

/** Commands that each node has carried out before a run. */
export type Stored = readonly (readonly string[])[];

/** What is needed to run the file of a lock in simulated processes. */
export interface Bench {
  readonly program: Program;
  readonly wire: Wire;
  readonly clients: ClientMaker;
  /** All scripts that it has sent, by their SHA-1: a search begins where nodes have them. */
  readonly scripts: Map<string, string>;
  /** What is in Redis before each run. Nothing, unless the lock does more with it. */
  stored: Stored;
  /** What its functions look for elsewhere is found. It is, unless they do more work without. */
  finds: boolean;
}

/** The text of a command that is a script, by its SHA-1 too. */
export function textIn({ scripts }: Bench, { words: [, text = ''] }: Said): string {
  return scripts.get(text.toLowerCase()) ?? text;
}

/** What one process has of the file. */
export interface Loaded {
  readonly exports: Exports;
  readonly shapes: Shapes;
  readonly given: Omit<Given, 'key' | 'ttlMs' | 'token' | 'unitMs'>;
  /** Of what it exports, what was called before all else. */
  readonly begun: Set<string>;
}

/** Loads the file in the process that is current; without what it exports, where it works as it is loaded. */
export async function loadIn(bench: Bench, addresses: readonly NodeAddress[], isScript = false): Promise<Loaded> {
  const { program, clients } = bench;
  const exports = isScript ? {} : await program.evaluate();
  let made: unknown[] | null = null;
  const all = (): readonly unknown[] => {
    made ??= addresses.map((it) => clients.make(it, addresses.length));
    return made;
  };
  const isRest = clients.kind === 'upstash';
  const urls = addresses.map(({ url, restUrl }) => (isRest ? restUrl : url));
  const places = isRest ? urls : placesFor(program.sources, addresses);
  const shapes = new Shapes(program);
  let own: unknown;
  const clientFor = (parameter: Parameter): unknown => {
    const [client] = all();
    if (own === undefined) return client;
    return hasOwnConnections(program) || lacks(client as object, parameter) ? own : client;
  };
  const isOwn = (className: string): boolean => Object(own).constructor?.name === className;
  const make = (className: string): unknown => (isOwn(className) ? own : madeOf({ exports, shapes, given }, className));
  const given = {
    clients: all,
    clientFor,
    urls,
    places,
    queries: queriesIn(program.sources),
    library: clients.library,
    make,
    modes: shapes.modes,
  };
  own = await ownConnection({ exports, shapes, given }, () => all()[0] as object, hasOwnConnections(program));
  return { exports, shapes, given, begun: new Set() };
}

/** A function that connects, and gives what other functions of the file are handed as their client. */
const CONNECTS =
  /^(?:connect|open|dial|create(?:Client|Connection|Redis|Socket)|(?:get|make|new)(?:Client|Connection))$/i;
const CONNECTING_MS = 5_000;

/** Whether a client has not what is called of a parameter. */
function lacks(client: object, { fields }: Parameter): boolean {
  return fields.some(({ name, isFunction }) => isFunction && !(name in client));
}

/** The file's own client, where its functions are handed one that only the file can make; `undefined` where they are not. */
async function ownConnection(
  { exports, shapes, given }: Omit<Loaded, 'begun'>,
  client: () => object,
  isOnly: boolean,
): Promise<unknown> {
  const functions = [...exportsOf(exports)].filter(([, it]) => typeof it === 'function') as [string, Callable][];
  const opener = functions.find(([name, it]) => CONNECTS.test(name) && !isClass(it));
  const isHanded = (it: Parameter): boolean =>
    roleOf(it) === 'client' && (isOnly || shapes.hasClass(it.type) || lacks(client(), it));
  const handed = functions.flatMap(([name, it]) => shapes.of(it, name).parameters.filter(isHanded));
  if (opener === undefined && isOnly) return classFor(handed, { exports, shapes, given });
  if (opener === undefined || handed.length === 0) return undefined;
  const [name, connect] = opener;
  const first: Given = { ...given, key: 'a', ttlMs: FIRST_TTL_MS, token: 'token', unitMs: 1, isBare: true };
  const never = new Promise((resolve) => setTimeout(resolve, CONNECTING_MS));
  const made = async (): Promise<unknown> => connect(...argumentsFor(shapes.of(connect, name).parameters, first));
  return Promise.race([made(), never]).catch(() => undefined);
}

/** An instance of a class in the file that has all methods that are called on these parameters; `undefined` if there is none. */
function classFor(handed: readonly Parameter[], loaded: Omit<Loaded, 'begun'>): unknown {
  const called = handed.flatMap(({ fields }) => fields.filter(({ isFunction }) => isFunction).map(({ name }) => name));
  const all = [...exportsOf(loaded.exports), ...Object.entries(insideOf(loaded.exports))];
  const has = (it: unknown): boolean => isClass(it) && called.every((name) => name in it.prototype);
  const [name] = called.length === 0 ? [] : (all.find(([, it]) => has(it)) ?? []);
  return name === undefined ? undefined : madeOf(loaded, name);
}

/** What else of the file a function is handed: an object of one of its classes, unless that makes its objects itself. */
function madeOf({ exports, shapes, given }: Omit<Loaded, 'begun'>, className: string): unknown {
  const it = exportsOf(exports).get(className) ?? insideOf(exports)[className];
  if (!isClass(it)) return undefined;
  const { parameters, text } = shapes.of(it, className);
  if (parameters.some(({ type }) => type === className)) return undefined;
  if (/\b(?:private|protected) constructor\b|\bextends\s+\w*Error\b/.test(text)) return undefined;
  const first: Given = { ...given, key: 'a', ttlMs: FIRST_TTL_MS, token: 'token', unitMs: 1, isBare: true };
  return Reflect.construct(it, argumentsFor(parameters, first));
}

/** Goes from the exports of a file to what a path leads to. */
export async function follow(loaded: Loaded, path: readonly Step[], given: Given): Promise<unknown> {
  let at: unknown = loaded.exports;
  let owner: unknown;
  for (const { kind, name } of path) {
    const before: unknown = at;
    if (kind === 'export') at = exportsOf(loaded.exports).get(name);
    else if (kind === 'inside') at = insideOf(loaded.exports)[name];
    else if (kind === 'member') at = (at as Readonly<Record<string, unknown>>)[name];
    else {
      const callable = at as Callable;
      const values = argumentsFor(loaded.shapes.of(callable, name).parameters, given);
      at = kind === 'new' ? Reflect.construct(callable, values) : await callable.apply(owner, values);
    }
    owner = before;
  }
  return at;
}

/** A method of a value, ready to be called. */
export function methodOf({ shapes }: Loaded, owner: unknown, name: string): Target {
  const it = Reflect.get(owner as object, name) as Callable;
  return { it, owner, parameters: shapes.of(it, name).parameters };
}

/** Calls exported functions that have to be called before any other, once in a process. */
export async function beginIn(loaded: Loaded, names: readonly string[], given: Given): Promise<void> {
  for (const name of names) {
    if (loaded.begun.has(name)) continue;
    loaded.begun.add(name);
    const it = exportsOf(loaded.exports).get(name) as Callable;
    await callOf({ it, owner: undefined, parameters: loaded.shapes.of(it, name).parameters }, given);
  }
}

/** What a function or a class makes, for looking at it. */
export function makeFor(loaded: Loaded, given: Given): Make {
  return async (value, { kind, name }, owner) => {
    const values = argumentsFor(loaded.shapes.of(value, name).parameters, given);
    return kind === 'new' ? Reflect.construct(value, values) : value.apply(owner, values);
  };
}
