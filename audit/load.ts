import type { NodeAddress } from '../libraries/net/addresses.js';
import { argumentsFor } from './arguments.js';
import { callOf, type Target } from './call.js';
import { type Callable, methodsOf, Shapes } from './callables.js';
import { isClass } from './classes.js';
import type { ClientMaker } from './clients.js';
import { placesFor, queriesIn } from './environment.js';
import { type Exports, exportsOf, insideOf } from './evaluation.js';
import type { Given } from './given.js';
import { madeBy } from './handed-functions.js';
import { appliesOwnDecorator, constructed, instanceFor } from './instances.js';
import type { Parameter } from './parameter.js';
import type { Step } from './plan.js';
import { hasOwnConnections, type Program } from './program.js';
import { namesResource, roleOf } from './roles.js';
import type { Said } from './said.js';
import type { Make } from './surface.js';
import { FIRST_TTL_MS } from './units.js';
import { isUnknown } from './unknown.js';
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
  /** Its processes can use it so long after they begin, µs: it is loaded, and connected, until then. */
  readyAfterUs: number;
  /** What its functions look for elsewhere is found, or all but the first. It is, unless they do more work without. */
  finds: boolean | 'later';
  /** The conditions that are passed over on which it would leave its functions. None, unless the lock does more without. */
  passed: ReadonlySet<string>;
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
  await openClients(program, exports);
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
  let listening: unknown;
  const clientFor = (parameter: Parameter): unknown => {
    const [client] = all();
    const [address] = addresses;
    if (LISTENS.test(parameter.name) && address !== undefined) {
      listening ??= clients.make(address, addresses.length);
      return listening;
    }
    if (own === undefined) return client;
    const isOnly = hasOwnConnections(program) || program.texts.some((it) => ADDS_COMMANDS.test(it));
    return isOnly || lacks(client as object, parameter) ? own : client;
  };
  const isOwn = (className: string): boolean => Object(own).constructor?.name === className;
  const make = (className: string): unknown => (isOwn(className) ? own : madeOf({ exports, shapes, given }, className));
  const given: Loaded['given'] = {
    clients: all,
    clientFor,
    urls,
    places,
    queries: queriesIn(program.sources),
    library: clients.library,
    redlock: () => clients.redlock(all()[0]),
    make,
    makeLike: (handed: Parameter) => classFor([handed], { exports, shapes, given }),
    modes: shapes.modes,
    ...(appliesOwnDecorator(program) ? {} : { instance: (it: Callable) => instanceFor(it, atFirst(given)) }),
  };
  own = await ownConnection({ exports, shapes, given }, () => all()[0] as object, hasOwnConnections(program));
  if (Array.isArray(own)) {
    if (own.length === addresses.length) made = own;
    own = undefined;
  }
  return { exports, shapes, given, begun: new Set() };
}

/** A client that subscribes, and can send nothing else then: another one than that which sends the commands. */
const LISTENS = /^_?(?:sub|subscriber|pubsub|listener)(?:Redis|Client|Conn(?:ection)?)?$|(?:Sub|Subscriber)$/;

/** A function that connects, and gives what other functions of the file are handed as their client. */
const CONNECTS =
  /^(?:connect|open|dial|create(?:Client|Connection|Redis|Socket)|(?:get|make|new)(?:Client|Connection))$/i;
/** A client of Redis is connected, and not one of something else: `db.connect()`. */
const REDIS_CONNECTS =
  /(?<!\b(?:db|pg|\w*pool|prisma|mongo\w*|mqtt|amqp\w*|nats|kafka|producer|consumer|net|tls))\.connect\(/i;
/** What gives a client, by its name, if it needs no argument: `warehouseRedis`. */
const GIVES_CLIENT = /(?:redis|valkey|client|connection)$/i;
/** What a function is told that makes a client: where its server is. */
const LEADS_TO_SERVER = /^(?:urls?|host|port|connection)$/;
/** What gives a client commands of the file's own. */
const ADDS_COMMANDS = /\.defineCommand\(|\bscripts\s*:\s*\{/;
/** A method by which an object connects that was made unconnected. */
const OPENS = /^(?:connect|open|dial|start)$/;
const CONNECTING_MS = 5_000;

/** Whether a client has not what is called of a parameter. */
function lacks(client: object, { fields }: Parameter): boolean {
  return fields.some(({ name, isFunction }) => isFunction && !(name in client));
}

/** What something is made with before a lock is known. */
function atFirst(given: Loaded['given']): Given {
  return { ...given, key: 'a', ttlMs: FIRST_TTL_MS, token: 'token', unitMs: 1, isBare: true };
}

/** What is made, if that does not take long; else `undefined`. */
function soon(made: () => Promise<unknown>): Promise<unknown> {
  return Promise.race([made(), new Promise((resolve) => setTimeout(resolve, CONNECTING_MS))]).catch(() => undefined);
}

/** Connects the clients that a file has and does not connect itself: the program that imports it does. */
async function openClients({ texts }: Program, exports: Exports): Promise<void> {
  if (texts.some((it) => REDIS_CONNECTS.test(it))) return;
  for (const [, it] of [...exportsOf(exports), ...Object.entries(insideOf(exports))]) {
    await soon(async () => connected(it));
  }
}

/** A client that is not connected yet is connected. */
async function connected(it: unknown): Promise<unknown> {
  const { isOpen, connect } = Object(it) as { readonly isOpen?: unknown; readonly connect?: unknown };
  if (isOpen === false && typeof connect === 'function') await connect.call(it);
  return it;
}

/** The file's own client or clients, where its functions are handed what only the file can make; `undefined` where they are not. */
async function ownConnection(
  { exports, shapes, given }: Omit<Loaded, 'begun'>,
  client: () => object,
  isOnly: boolean,
): Promise<unknown> {
  const functions = [...exportsOf(exports)].filter(([, it]) => typeof it === 'function') as [string, Callable][];
  const connects = ([name, it]: readonly [string, Callable]): boolean =>
    !isClass(it) &&
    (CONNECTS.test(name) || (GIVES_CLIENT.test(name) && shapes.of(it, name).parameters.every((one) => one.isOptional)));
  const hasCommands = ([name, it]: readonly [string, Callable]): boolean =>
    !isClass(it) &&
    ADDS_COMMANDS.test(shapes.of(it, name).text) &&
    shapes.of(it, name).parameters.every((one) => one.isOptional || LEADS_TO_SERVER.test(roleOf(one)));
  const opener = functions.find(hasCommands) ?? functions.find(connects);
  const adds = opener !== undefined && hasCommands(opener);
  const isHanded = (it: Parameter): boolean =>
    (adds && roleOf(it) === 'clients') ||
    (roleOf(it) === 'client' && (isOnly || adds || shapes.hasClass(it.type) || lacks(client(), it)));
  const handed = functions
    .flatMap(([name, it]) => shapes.of(it, name).parameters.flatMap((one) => [one, ...one.fields]))
    .filter(isHanded);
  const first = atFirst(given);
  if (opener === undefined && isOnly) {
    const made = await soon(async () => classFor(handed, { exports, shapes, given }));
    const opens = made === undefined ? undefined : [...methodsOf(made)].find(([name]) => OPENS.test(name));
    if (opens === undefined) return made;
    const [name, open] = opens;
    await soon(async () => open.apply(made, argumentsFor(shapes.of(open, name).parameters, first)));
    return made;
  }
  if (opener === undefined || handed.length === 0) return undefined;
  const [name, connect] = opener;
  const { parameters } = shapes.of(connect, name);
  const made = await soon(async () => connected(await connect(...argumentsFor(parameters, first))));
  // What is told a server may as well make a lock.
  return adds && parameters.some((it) => !it.isOptional) && !isClient(made) ? undefined : made;
}

function isClient(made: unknown): boolean {
  const { defineCommand, sendCommand } = Object(made) as Readonly<Record<string, unknown>>;
  return typeof (defineCommand ?? sendCommand) === 'function';
}

/** An instance of a class in the file that has all methods that are called on these parameters; `undefined` if there is none. */
function classFor(handed: readonly Parameter[], loaded: Omit<Loaded, 'begun'>): unknown {
  const called = handed.flatMap(({ fields }) => fields.filter(({ isFunction }) => isFunction).map(({ name }) => name));
  const all = [...exportsOf(loaded.exports), ...Object.entries(insideOf(loaded.exports))];
  const has = (it: unknown): boolean => isClass(it) && called.every((name) => name in it.prototype);
  const isNamed = ([name, it]: readonly [string, unknown]): boolean =>
    isClass(it) && handed.some(({ type }) => type === name);
  const [name] = all.find(isNamed) ?? (called.length === 0 ? [] : (all.find(([, it]) => has(it)) ?? []));
  return name === undefined ? undefined : madeOf(loaded, name);
}

/** What else of the file a function is handed: an object of one of its classes, unless that makes its objects itself. */
function madeOf({ exports, shapes, given }: Omit<Loaded, 'begun'>, className: string): unknown {
  const it = exportsOf(exports).get(className) ?? insideOf(exports)[className];
  if (!isClass(it)) return undefined;
  const { parameters, text } = shapes.of(it, className);
  if (parameters.some(({ type }) => type === className)) return undefined;
  if (/\b(?:private|protected) constructor\b|\bextends\s+\w*Error\b/.test(text)) return undefined;
  const factory = factoryOf(it, shapes);
  if (factory !== undefined && parameters.some(isSocket)) return factory.call(it);
  return Reflect.construct(it, argumentsFor(parameters, atFirst(given)));
}

/** A connection that a client is made of: by its type, or where it has none by its name. */
function isSocket({ name, type }: Parameter): boolean {
  return /\bSocket\b/.test(type) || (type === '' && /^_?(?:socket|sock|conn|connection|stream)$/.test(name));
}

/** The method of a class itself that makes one, and needs no argument: `fromEnv`. */
function factoryOf(it: Callable, shapes: Shapes): Callable | undefined {
  const all = Object.getOwnPropertyNames(it).map((name) => [name, Reflect.get(it, name) as unknown] as const);
  const makes = all.find(
    ([name, one]) =>
      typeof one === 'function' &&
      /^(?:from|connect|open|create|make|dial)/.test(name) &&
      shapes.of(one as Callable, name).parameters.every(({ isOptional }) => isOptional),
  );
  return makes?.[1] as Callable | undefined;
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
    else
      at =
        kind === 'new'
          ? newOf(loaded, at as Callable, name, given)
          : await callFor(loaded, { value: at as Callable, owner }, name, given);
    owner = before;
  }
  return at;
}

/** Whether what a path leads to is made for a key. */
export async function takesKey(loaded: Loaded, path: readonly Step[], given: Given): Promise<boolean> {
  for (const [i, { kind, name }] of path.entries()) {
    if (kind !== 'new' && kind !== 'call') continue;
    const callable = (await follow(loaded, path.slice(0, i), given)) as Callable;
    if (loaded.shapes.of(callable, name).parameters.some(namesResource)) return true;
  }
  return false;
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
  return async (value, { kind, name }, owner) =>
    kind === 'new' ? newOf(loaded, value, name, given) : callFor(loaded, { value, owner }, name, given);
}

/** A new object. A class that throws for what it is given is given no more than it needs: `ttl` may have to exceed its other settings. */
function newOf({ shapes }: Loaded, value: Callable, name: string, given: Given): unknown {
  const { parameters } = shapes.of(value, name);
  const made = (of: Given): unknown => constructed(value, argumentsFor(parameters, of), of);
  try {
    return made(given);
  } catch (error) {
    try {
      return made({ ...given, isBare: true });
    } catch {
      throw error;
    }
  }
}

function callFor(
  { shapes }: Loaded,
  { value, owner }: { readonly value: Callable; readonly owner: unknown },
  name: string,
  given: Given,
): Promise<unknown> {
  const values = argumentsFor(shapes.of(value, name).parameters, given);
  return madeBy(() => value.apply(owner, values), isUnknown);
}

/** After so many ms of simulated time. */
export function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
