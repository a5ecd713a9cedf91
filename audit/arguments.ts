import { EPOCH_MS } from '../libraries/library-host.js';
import { OTHER_URL } from './environment.js';
import { periodFor } from './forms.js';
import type { Given } from './given.js';
import { modeFor, saysMode } from './modes.js';
import { endingSignal } from './own-work.js';
import type { Parameter } from './parameter.js';
import { IS_BODY, partlyKnown } from './partly-known.js';
import { makersOf } from './response.js';
import { hasClient, isAddress, isId, isListType, namesResource, type Role, roleOf, saysTtl } from './roles.js';
import { dutyIn, teller, tellsTerm } from './terms.js';
import { durationOf, IS_PERIOD, unitIn } from './units.js';
import { calls, elements, QUIET, requiredState, requiredValue, unknownValue } from './unknown.js';
import { SECRET } from './uses.js';

/** So many clients, whose names differ in a number or a letter at the end (`node1`, `node2`), are of a node each. */
const LEAST_NODES = 3;
const STEM = /^(.*?)(?:\d+|[A-Ea-e]|One|Two|Three|Four|Five)$/;

/** Arguments for a function, in its order; what it can do without is left out at the end. */
export function argumentsFor(parameters: readonly Parameter[], given: Given, isRelease = false): unknown[] {
  const apart = parameters
    .filter((it) => STEM.test(it.name) && roleOf(it, isRelease) === 'client')
    .map(({ name }) => name);
  const areNodes = apart.length >= LEAST_NODES && new Set(apart.map((it) => STEM.exec(it)?.[1])).size === 1;
  const own = { ...given, others: othersIn(parameters) };
  const values = withKey(parameters, given, isRelease).flatMap((it) => {
    const nth = areNodes ? apart.indexOf(it.name) : -1;
    const value = nth < 0 ? argumentFor(it, own, isRelease) : given.clients()[nth];
    return it.isRest === true && Array.isArray(value) ? (value as unknown[]) : [value];
  });
  let last = values.length;
  while (last > 0 && values[last - 1] === undefined) last--;
  return values.slice(0, last);
}

/** The paths of what has to be another one than what is before it: `into`, `transfer.toBin`. */
function othersIn(parameters: readonly Parameter[]): ReadonlySet<string> {
  return new Set(
    parameters.flatMap((it) => [
      ...(isOther(it) ? [it.name] : []),
      ...it.fields.filter(isOther).map((field) => `${it.name}.${field.name}`),
    ]),
  );
}

function isOther(it: Parameter): boolean {
  return it.isOther === true;
}

/**
 * Where nothing is called a key, it is the first thing that has a number or a name: for a release, not what may be the id
 * that the acquisition gave.
 */
function withKey(all: readonly Parameter[], given: Given, isRelease: boolean): readonly Parameter[] {
  // What does its own work makes its token itself.
  const parameters = given.worksItself ? all.map((it) => (it.name === 'id' ? { ...it, isKey: true } : it)) : all;
  const roles = parameters.map((it) => roleOf(it, isRelease));
  const says = ['key', 'keys', 'subject', 'held'];
  if (roles.some((it) => says.includes(it)) || parameters.some(namesResource)) return parameters;
  if (isRelease && roles.filter((it) => it === 'token').length === 1 && tokenIn(given.held, '') !== '') {
    const own = parameters.find((_, i) => roles[i] === 'token');
    if (given.named?.includes(own?.name ?? '') !== true) return parameters;
  }
  const isOptions = (_: unknown, i: number): boolean => roles[i] === 'options';
  if (parameters.some(isOptions)) {
    if (given.isAcquiring !== true) return parameters;
    const own = withId(parameters, roles);
    if (own.some(({ isKey }) => isKey)) return own;
    return parameters.map((it, i) => (isOptions(it, i) ? { ...it, fields: withId(it.fields) } : it));
  }
  const own = withId(parameters, roles);
  if (own.some(({ isKey }) => isKey)) return own;
  // Of what nothing is said, the first tells which lock is meant.
  const at = roles.findIndex((it, i) => it === 'unknown' && isUntold(parameters[i]) && isCommon(parameters[i], given));
  return parameters.map((it, i) => (i === at ? { ...it, isKey: true } : it));
}

/** Whether nothing is written of a parameter but its name. */
function isUntold(parameter: Parameter | undefined): boolean {
  return parameter?.type === '' && parameter.fields.length === 0 && !parameter.isOptional;
}

/** Whether what acquires has a parameter of this name. */
function isCommon(parameter: Parameter | undefined, { isAcquiring, named }: Given): boolean {
  return isAcquiring === true || named?.includes(parameter?.name ?? '') === true;
}

function withId(
  parameters: readonly Parameter[],
  roles: readonly Role[] = parameters.map((it) => roleOf(it)),
): readonly Parameter[] {
  const at = parameters.findIndex(
    ({ name }, i) => roles[i] === 'token' && /(?:^|[a-z])(?:id|Id|worker|instance)$/.test(name),
  );
  return parameters.map((it, i) => (i === at ? { ...it, isKey: true } : it));
}

const TOKEN_NAMES = 'token value lockValue owner id lockId uuid identifier nonce secret holder'.split(' ');

/** What a token is in what an acquisition gave. */
export function tokenIn(held: unknown, otherwise: string): unknown {
  if (typeof held === 'string' && held !== 'OK') return held;
  if (typeof held !== 'object' || held === null) return otherwise;
  for (const name of TOKEN_NAMES) {
    const value: unknown = Reflect.get(held, name);
    if (typeof value === 'string') return value;
  }
  return otherwise;
}

function keysFor({ type, fields }: Parameter, { key, held }: Given, isRelease: boolean): unknown {
  if (isRelease && Array.isArray(held)) return held;
  // Of things, and not of names: what is done for each is done for more than one.
  if (type !== '' && fields.length > 0) return elements(key);
  return Array.from({ length: calls.names }, (_, i) => (i === 0 ? key : `${key}${i + 1}`));
}

function argumentFor(parameter: Parameter, given: Given, isRelease: boolean): unknown {
  const role = roleOf(parameter, isRelease);
  const { isOptional, name } = parameter;
  const needed = (value: unknown): unknown => (isOptional ? undefined : value);
  const made = isOptional || role === 'held' || isRelease ? undefined : given.make?.(parameter.type);
  if (made !== undefined) return made;
  const mode = modeFor(parameter, given);
  if (mode !== undefined) return mode;
  switch (role) {
    case 'key':
      return keyFor(parameter, given, isRelease);
    case 'keys':
      return keysFor(parameter, given, isRelease);
    case 'keyOf':
      return () => given.key;
    case 'ttl':
      if (given.isBare && isOptional) return undefined;
      if (given.worksItself && !saysTtl(name)) return 1;
      if (/\bDuration$/.test(parameter.type)) return durationOf(given.ttlMs);
      return Math.max(1, Math.round(given.ttlMs / (unitIn(name) ?? parameter.unitMs ?? given.unitMs)));
    case 'permits':
      return 1;
    case 'environment':
      return needed(process.env);
    case 'secret':
      return needed(SECRET);
    case 'fetch':
      return needed(fetch);
    case 'place':
      return needed(`${OTHER_URL}/a`);
    case 'token':
      if (given.held !== undefined) return tokenIn(given.held, given.token);
      return needed(given.token);
    case 'work': {
      const work = given.work ?? needed(dutyIn(unknownValue({}, 'a', name), given));
      return work !== undefined && isListType(parameter.type) ? [work] : work;
    }
    case 'signal':
      return needed(given.stop ?? endingSignal());
    case 'callback':
      return given.callback;
    case 'time':
      return needed(timeFor(parameter));
    case 'descriptor':
      return given.descriptor;
    case 'response':
      return given.response ?? unknownValue();
    case 'held':
      return given.held;
    case 'options':
      return isRelease && isLike(given.held, parameter.fields) ? given.held : optionsFor(parameter, given, isRelease);
    case 'subject':
      if (isRelease && isLike(given.held, parameter.fields)) return given.held;
      return needed(subjectFor(parameter.fields, given, name));
    case 'unknown':
      // What only the release is handed is what was acquired.
      if (isRelease && typeof given.held !== 'boolean' && given.named?.includes(name) !== true)
        return needed(given.held ?? unknownFor(parameter));
      return needed(dutyIn(unknownFor(parameter), given));
    case 'logger':
      return parameter.isFunction && tellsTerm(name) ? teller(name, given.terms) : needed(QUIET);
    case 'delay':
      return needed(IS_PERIOD.test(name) ? PERIOD_MS / (unitIn(name) ?? 1) : SETTINGS.delay);
    default:
      return role in SETTINGS ? needed(SETTINGS[role as keyof typeof SETTINGS]) : serverFor(role, parameter, given);
  }
}

/** What is handed to what a function cannot do without, and has nothing to do with its lock. */
const SETTINGS = {
  retries: 5,
  delay: 50,
  patience: 1_000,
  flag: false,
  share: 0.01,
  number: 1,
} as const satisfies Partial<Record<Role, unknown>>;

/** A schedule has a slot each so many ms: in a hold of days, these are still few. */
const PERIOD_MS = 25_000;

/** Where the servers are, or what speaks to them. */
function serverFor(role: Role, parameter: Parameter, given: Given): unknown {
  const [url = ''] = given.urls;
  switch (role) {
    case 'client': {
      if (parameter.hasDefault) return undefined;
      const client = given.clientFor?.(parameter) ?? given.clients()[0];
      return hasClient(parameter) ? serviceWith(client as object) : client;
    }
    case 'clients':
      return given.clients();
    case 'library':
      return given.library;
    case 'redlock':
      return given.redlock?.() ?? unknownFor(parameter);
    case 'url':
      return url;
    case 'urls':
      return addressesFor(parameter, given);
    case 'host':
      return placeOf(url).host;
    case 'port':
      return placeOf(url).port;
    case 'connection':
      return connectionTo(url);
    default:
      return undefined;
  }
}

/** What an application calls that which has its client: the client is a property of it, or one of its methods gives it. */
function serviceWith(client: object): unknown {
  return new Proxy(client, {
    get: (target, name) => {
      if (typeof name === 'string' && /^_?(?:redis|client|connection|conn|instance|raw|native)$/i.test(name))
        return client;
      const own: unknown = Reflect.get(target, name);
      if (typeof own === 'function') return own.bind(target);
      const gives =
        own === undefined && typeof name === 'string' && /^_?(?:get|use|connect|create|open|provide)/.test(name);
      return gives ? () => client : own;
    },
  });
}

/** The time at which a run begins. */
function timeFor({ type }: Parameter): unknown {
  const date = new Date(EPOCH_MS);
  return type === 'Date' ? date : /^string\b/.test(type) ? date.toISOString() : EPOCH_MS;
}

/** What reads as a text is one: what is sent to Redis, it is part of. */
function unknownFor(parameter: Parameter): unknown {
  const { name, type } = parameter;
  if (/^(?:Uint8Array|Buffer)\b/.test(type)) return Buffer.from('a');
  const required = type === '' ? (requiredValue(name, 'a') ?? undefined) : undefined;
  if (required !== undefined) return required;
  const isText = /^string\b(?!\s*\[)/.test(type) || /prefix|namespace|version|region/i.test(name);
  return isText && !parameter.isFunction ? textFor(name, 'a') : unknownValue({}, 'a', name, parameter);
}

function placeOf(url: string): { readonly host: string; readonly port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port || 6379) };
}

/** Options as each of the clients takes them. */
function connectionTo(url: string): object {
  const { host, port } = placeOf(url);
  return url.startsWith('https:') ? { url, token: 'token' } : { url, host, port, socket: { host, port } };
}

function addressesFor({ name, type, fields }: Parameter, { urls, places }: Given): unknown {
  if (/\bhost\b/.test(type) || isAddress(fields)) return urls.map(connectionTo);
  return /ur[li]s?$/i.test(name) ? urls : places;
}

/** What both call by one name is one thing; else it may be the name that its key has. */
function keyFor({ name, type }: Parameter, given: Given, isRelease: boolean): unknown {
  const { named, held } = given;
  if (/^(?:number|bigint)\b/.test(type)) return numberAt(name, given);
  return (isRelease && named?.includes(name) !== true ? textIn(held, name) : undefined) ?? textAt(name, given);
}

/** Names of what something goes to: another one than it comes from. */
const GOES_TO = /^(?:to|into|receiver|recipient|payee|taker|dest|destination|beneficiary|creditor)(?:[A-Z_]\w*)?$/;

/** The name in a path: `id` of `order.id`. */
const NAME_IN = /[^.]*$/;

/** The same for what something goes to, or what has to be another one. */
function otherEnd(path: string, key: string, { others }: Pick<Given, 'others'>): string {
  return others?.has(path) === true || GOES_TO.test(NAME_IN.exec(path)?.[0] ?? '') ? `${key}2` : key;
}

function textFor(path: string, key: string, given: Pick<Given, 'others'> = {}): string {
  return periodFor(NAME_IN.exec(path)?.[0] ?? '', key) ?? otherEnd(path, key, given);
}

function textAt(path: string, given: Given): string {
  if (given.owners?.has(path)) return given.token;
  const from = given.swaps?.get(path) ?? path;
  return textFor(from, keyAt(from, given), given);
}

function numberAt(path: string, given: Given): number {
  const from = given.swaps?.get(path) ?? path;
  return numberOf(otherEnd(from, keyAt(from, given), given));
}

/** The key for an argument, or for a property of one: `order.id`. */
function keyAt(path: string, { key, differs, names }: Given): string {
  names?.add(path);
  return differs?.has(path) || calls.unequal.has(path) ? `${key}-${path}` : key;
}

/** The number of a thing of this name: another one for another name. */
function numberOf(key: string): number {
  return [...key].reduce((sum, letter) => sum * 31 + (letter.codePointAt(0) ?? 0), 0) % 1_000_003;
}

/** A job, an order or a request: all that tells it from others tells which resource it is. */
function subjectFor(fields: readonly Parameter[], given: Given, path: string): unknown {
  const made: Record<string, unknown> = {};
  for (const field of fields) {
    const { name, type, isFunction, isGuessed } = field;
    const own = `${path}.${name}`;
    const [, literal] = /^['"]([^'"]*)['"]/.exec(type) ?? [];
    // The type of a method is what it returns.
    if (isFunction && literal === undefined) continue;
    if (literal !== undefined) made[name] = isFunction ? () => literal : literal;
    else if (roleOf(field) === 'time') made[name] = timeFor(field);
    else if (name === 'url') made[name] = urlOf(keyAt(own, given), given);
    else if (/^number\b(?!\s*\[)/.test(type)) made[name] = isId(field) ? numberAt(own, given) : 1;
    else if (type === 'boolean') made[name] = false;
    else if (calls.body !== null && IS_BODY.test(name)) made[name] = calls.body(keyAt(own, given));
    else if (/^string\b(?!\s*\[)/.test(type) || (isGuessed === true && isId(field)))
      made[name] = requiredState(name) ?? textAt(own, given);
    else if (field.fields.length > 0 && !isListType(type)) made[name] = subjectFor(field.fields, given, own);
    else if (/^(?:readonly\s+)?string\[\]/.test(type)) made[name] = textsFor(keyAt(own, given));
    else if (isListType(type)) made[name] = elements(keyAt(own, given));
  }
  return partlyKnown(made, keyAt(`${path}.*`, given));
}

/** The URL of a request about a thing of this name. */
function urlOf(about: string, given: Given): string {
  const { queries = [] } = given;
  const query = new URLSearchParams(Object.fromEntries(queries.map((it) => [it, textFor(it, keyAt(it, given))])));
  return `${calls.path?.(about) ?? `${OTHER_URL}/${about}`}${queries.length > 0 ? `?${query}` : ''}`;
}

function textsFor(key: string): readonly string[] {
  return Array.from({ length: calls.elements }, (_, i) => (i === 0 ? key : `${key}${i}`));
}

/** A text in what was acquired, where it has one of this name. */
function textIn(held: unknown, name: string): string | undefined {
  const value: unknown = typeof held === 'object' && held !== null ? Reflect.get(held, name) : undefined;
  return typeof value === 'string' ? value : undefined;
}

/** Whether what was acquired has all that is asked for. */
function isLike(held: unknown, fields: readonly Parameter[]): boolean {
  const asked = fields.filter(({ isOptional, isGuessed }) => !isOptional || isGuessed === true);
  return typeof held === 'object' && held !== null && asked.length > 0 && asked.every(({ name }) => name in held);
}

const SERVERS: readonly Role[] = ['client', 'clients', 'url', 'urls', 'host', 'port', 'connection'];

function optionsFor(parameter: Parameter, given: Given, isRelease: boolean): unknown {
  const { fields, isOptional } = parameter;
  const isOwn = (it: Parameter): boolean => ['work', ...SERVERS].includes(roleOf(it, isRelease)) || namesResource(it);
  if (given.isBare === true && isOptional && !fields.some(isOwn)) return undefined;
  const made: Record<string, unknown> = { ...makersOf(fields.map(({ name }) => name)) };
  const isNeeded = (it: Parameter): boolean => {
    const role = roleOf(it, isRelease);
    return (
      !it.isOptional ||
      // The request of a context.
      (it.isGuessed === true && role === 'subject') ||
      saysMode(it, given.modes) ||
      (it.isFunction && tellsTerm(it.name)) ||
      [...SERVERS, 'work', 'permits', ...(given.isBare ? [] : ['key', 'keyOf', 'subject', 'ttl'])].includes(role)
    );
  };
  // What settings are asked of is known by its name.
  const gives = (it: Parameter): boolean => it.isGuessed === true && it.isFunction && /^get(?:OrThrow)?$/.test(it.name);
  for (const field of fields.filter((it) => isNeeded(it) && !gives(it))) {
    // What is used is there.
    const used = field.isGuessed === true ? { ...field, isOptional: false } : field;
    const value = argumentFor(used, given, isRelease);
    if (value !== undefined) made[field.name] = value;
  }
  if (Object.keys(made).length === 0 && isOptional) return undefined;
  const path = fields.length === 0 || fields.some(gives) ? parameter.name : '';
  if (isOptional || !fields.every((it) => it.isGuessed)) return made;
  // A TTL that is not given is not there, and no unknown value.
  for (const it of fields) if (given.isBare === true && roleOf(it) === 'ttl') made[it.name] ??= undefined;
  return unknownValue(made, 'a', path);
}
