import type { Parameter } from './shapes.js';

/** What a call of the lock may be given. */
export interface Given {
  readonly key: string;
  readonly ttlMs: number;
  /** A value that is this acquisition's own. */
  readonly token: string;
  /** Of all nodes; the first is that of a lock on one node. */
  readonly clients: () => readonly unknown[];
  readonly urls: readonly string[];
  /** The same for a file that takes addresses apart, or puts them together: `n0:6379`. */
  readonly places: readonly string[];
  readonly library: unknown;
  /** What is run under the lock. */
  readonly work?: (...given: readonly unknown[]) => unknown;
  /** What an acquisition gave, for its release. */
  readonly held?: unknown;
  /** How many ms a TTL of 1 means. */
  readonly unitMs: number;
  /** What a function can do without is left to its defaults. */
  readonly isBare?: boolean;
  /** What the function that acquires calls its parameters. */
  named?: readonly string[];
}

/** What a parameter is for. */
export type Role =
  | 'client'
  | 'clients'
  | 'url'
  | 'urls'
  | 'library'
  | 'key'
  | 'keys'
  | 'ttl'
  | 'token'
  | 'work'
  | 'held'
  | 'options'
  | 'retries'
  | 'delay'
  | 'patience'
  | 'logger'
  | 'signal'
  | 'flag'
  | 'share'
  | 'number'
  | 'unknown';

const IS_CLIENT_TYPE =
  /\b(?:Redis|IORedis|Valkey|RedisClient\w*|RedisLike|RedisConnection|Commander|Cluster|Upstash\w*|KV)\b|Redis(?:Client|Like|Connection|Instance)?\b/;
const IS_CLIENT_NAME =
  /^_?(?:redis\w*|client|valkey|conn|connection|kv|store|cache|db|node|upstash|rc|r|ioredis|cmd|backend)$|(?:redis|client|conn(?:ection)?)$/i;
const IS_CLIENTS_NAME =
  /^_?(?:clients|nodes|servers|instances|redises|connections|masters|stores)$|(?:clients|instances|connections|redises|nodes)$/i;
const NAMES: readonly (readonly [Role, RegExp])[] = [
  ['urls', /^(?:urls|addresses|endpoints|hosts|uris)$|Urls$/],
  ['url', /^(?:url|uri|redisUrl|connectionString|endpoint|dsn)$|Url$/],
  ['unknown', /prefix|namespace|version|region/i],
  ['share', /factor|ratio|fraction|drift|skew/i],
  ['signal', /^(?:signal|abortSignal)$/],
  ['logger', /^(?:log|logger|console|metrics|tracer|telemetry)$/i],
  ['retries', /retr(?:y|ies)(?:Count|Max|Limit)?$|attempts?$|^tries$|max(?:Retr|Attempt|Tr)/i],
  ['delay', /(?:delay|interval|backoff|jitter|pollMs|every|sleep)/i],
  ['patience', /(?:node|server|redis|command|cmd|request|reply|response|call|op|connect|socket|network)_?timeout/i],
  ['patience', /(?:wait|acquireTimeout|acquisitionTimeout|deadline|patience|blockFor|maxWait|giveUp)/i],
  ['ttl', /(?:ttl|timeout|expir|lease|duration|^px$|^ex$|^ms$|^seconds$|^secs?$|lifetime|holdFor|lockFor|validity)/i],
  ['held', /^(?:lock|handle|lease|held|acquired|acquisition|guard|mutex|result|grant|claim|ticket|permit)$/i],
  [
    'token',
    /(?:token|owner|value|uuid|nonce|secret|identifier|holder|lockId|clientId|^val$|^id$|^me$|worker|instance)/i,
  ],
  ['keys', /^(?:keys|resources|names)$/],
  ['key', /(?:key|resource|name|job|slug|lock|task|topic|order|user|account|path|target|entity|id$|subject|what)/i],
];
const IS_WORK_NAME =
  /^(?:fn|cb|callback|task|work|job|routine|action|func|function|handler|body|operation|section|criticalSection|run|execute|f|effect|inner|next|thunk)$/i;

/** What a parameter is for, by its type and its name. */
export function roleOf(parameter: Parameter, isRelease = false): Role {
  const { name, type, fields } = parameter;
  const isFunction = parameter.isFunction && (parameter.isGuessed !== true || IS_WORK_NAME.test(name));
  const isText = /^(?:readonly\s+)?string\b(?!\s*\[)/.test(type);
  const isNumber = /^number\b(?!\s*\[)/.test(type);
  if (isFunction && !IS_CLIENT_NAME.test(name)) return /log|metric|on[A-Z]/.test(name) ? 'logger' : 'work';
  if (/AbortSignal/.test(type)) return 'signal';
  if (isLikeClient(fields)) return 'client';
  if (type === 'boolean') return 'flag';
  if (IS_CLIENTS_NAME.test(name) && !isText && !isNumber) return /string|host/.test(type) ? 'urls' : 'clients';
  if (isListType(type) || (type === '' && isUsedAsList(fields))) {
    if (IS_CLIENT_TYPE.test(type)) return 'clients';
    return /ur[li]s?$|node|server|host|addr|endpoint|master|instance/i.test(name) ? 'urls' : 'keys';
  }
  if (!isText && !isNumber && IS_CLIENT_TYPE.test(type) && !/Options|Config|Lock\b/.test(type))
    return /typeof|new \(/.test(type) ? 'library' : 'client';
  if (type === '' && IS_WORK_NAME.test(name)) return name === 'job' || name === 'task' ? 'key' : 'work';
  const isObject =
    fields.length > 0 ||
    /^\{|Options|Config|Settings|Params|Props/.test(type) ||
    /^(?:opts?|options|config|cfg|settings|params|args|deps|ctx)$/i.test(name) ||
    name === '';
  if (!isText && !isNumber && IS_CLIENT_NAME.test(name) && type !== 'Request') return 'client';
  if (
    isRelease &&
    !isText &&
    !isNumber &&
    /^(?:lock|handle|lease|held|acquired|guard|grant|claim|ticket|permit|result)$/i.test(name)
  )
    return 'held';
  if (isObject && !isText && !isNumber) return 'options';
  const [role] = NAMES.find(([, pattern]) => pattern.test(name)) ?? [];
  if (isNumber) {
    if (role === 'retries' || role === 'delay' || role === 'patience' || role === 'share' || role === 'ttl')
      return role;
    // What has a default is no more than a number, unless its name says that it is a TTL.
    return role === undefined && !parameter.isOptional ? 'ttl' : 'number';
  }
  if (isText && role === 'unknown' && parameter.isOptional) return role;
  if (isText) return role === 'token' || role === 'url' ? role : 'key';
  if (role === 'held' && !isRelease) return 'key';
  return role ?? 'unknown';
}

function isListType(type: string): boolean {
  return /\[\]$|^(?:readonly\s+)?(?:Readonly)?Array</.test(type.trim());
}

/** Whether all that is asked of something without a type is what lists have. */
function isUsedAsList(fields: readonly Parameter[]): boolean {
  const isOfList = ({ name }: Parameter): boolean =>
    /^(?:map|flatMap|forEach|filter|reduce|entries|length)$/.test(name);
  return fields.some(({ name, isFunction }) => name !== 'length' && isFunction) && fields.every(isOfList);
}

/** Whether an object is described by what is asked of a client. */
function isLikeClient(fields: readonly Parameter[]): boolean {
  const has = (name: string): boolean => fields.some((it) => it.name === name && it.isFunction);
  return has('set') && (has('eval') || has('del') || has('get'));
}

/** How many ms a TTL of 1 means, by the name of its parameter; `null` where that does not tell. */
export function unitIn(name: string): number | null {
  if (/ms$|milli|^px$/i.test(name)) return 1;
  return /sec(?:ond)?s?$|^ex$|[a-z]S$/.test(name) ? 1_000 : null;
}

const QUIET: object = new Proxy(() => QUIET, { get: (_, name) => (name === 'then' ? undefined : QUIET) });

/** Arguments for a function, in its order; what it can do without is left out at the end. */
export function argumentsFor(parameters: readonly Parameter[], given: Given, isRelease = false): unknown[] {
  const values = withKey(parameters, isRelease).flatMap((it) => {
    const value = argumentFor(it, given, isRelease);
    return it.isRest === true && Array.isArray(value) ? (value as unknown[]) : [value];
  });
  let last = values.length;
  while (last > 0 && values[last - 1] === undefined) last--;
  return values.slice(0, last);
}

/** Where nothing is called a key, it is the first thing that has a number or a name. */
function withKey(parameters: readonly Parameter[], isRelease: boolean): readonly Parameter[] {
  const roles = parameters.map((it) => roleOf(it, isRelease));
  if (roles.some((it) => it === 'key' || it === 'keys' || it === 'options' || it === 'held')) return parameters;
  const at = parameters.findIndex(
    ({ name }, i) => roles[i] === 'token' && /(?:^|[a-z])(?:id|Id|worker|instance)$/.test(name),
  );
  return parameters.map((it, i) => (i === at ? { ...it, name: 'key' } : it));
}

/** What a token is in what an acquisition gave. */
export function tokenIn(held: unknown, otherwise: string): unknown {
  if (typeof held === 'string' && held !== 'OK') return held;
  if (typeof held !== 'object' || held === null) return otherwise;
  for (const name of [
    'token',
    'value',
    'lockValue',
    'owner',
    'id',
    'lockId',
    'uuid',
    'identifier',
    'nonce',
    'secret',
    'holder',
  ]) {
    const value: unknown = Reflect.get(held, name);
    if (typeof value === 'string') return value;
  }
  return otherwise;
}

function argumentFor(parameter: Parameter, given: Given, isRelease: boolean): unknown {
  const role = roleOf(parameter, isRelease);
  const { isOptional, name } = parameter;
  switch (role) {
    case 'client':
      return given.clients()[0];
    case 'clients':
      return given.clients();
    case 'url':
      return given.urls[0];
    case 'urls':
      return addressesFor(parameter, given);
    case 'library':
      return given.library;
    case 'key':
      // What both call by one name is one thing; else it may be the name that its key has.
      return (isRelease && given.named?.includes(name) !== true ? textIn(given.held, name) : undefined) ?? given.key;
    case 'keys':
      return [given.key];
    case 'ttl':
      return Math.max(1, Math.round(given.ttlMs / (unitIn(name) ?? given.unitMs)));
    case 'token':
      if (given.held !== undefined) return tokenIn(given.held, given.token);
      return isOptional ? undefined : given.token;
    case 'work': {
      const work = given.work ?? (isOptional ? undefined : unknownValue());
      return work !== undefined && isListType(parameter.type) ? [work] : work;
    }
    case 'held':
      return given.held;
    case 'options':
      return isRelease && isLike(given.held, parameter.fields) ? given.held : optionsFor(parameter, given, isRelease);
    case 'logger':
      return isOptional ? undefined : QUIET;
    case 'retries':
      return isOptional ? undefined : 5;
    case 'delay':
      return isOptional ? undefined : 50;
    case 'patience':
      return isOptional ? undefined : 1_000;
    case 'flag':
      return isOptional ? undefined : false;
    case 'share':
      return isOptional ? undefined : 0.01;
    case 'number':
      return isOptional ? undefined : 1;
    default:
      return isOptional ? undefined : unknownValue();
  }
}

function addressesFor({ name, type }: Parameter, { urls, places }: Given): unknown {
  if (/\bhost\b/.test(type))
    return urls.map((it) => ({ host: new URL(it).hostname, port: Number(new URL(it).port || 6379) }));
  return /ur[li]s?$/i.test(name) ? urls : places;
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

function optionsFor(parameter: Parameter, given: Given, isRelease: boolean): unknown {
  const { fields, isOptional } = parameter;
  const made: Record<string, unknown> = {};
  const isNeeded = (it: Parameter): boolean => {
    const role = roleOf(it, isRelease);
    return (
      !it.isOptional ||
      ['client', 'clients', 'url', 'urls', 'work', ...(given.isBare ? [] : ['key', 'ttl'])].includes(role)
    );
  };
  for (const field of fields.filter(isNeeded)) {
    const value = argumentFor(field, given, isRelease);
    if (value !== undefined) made[field.name] = value;
  }
  if (Object.keys(made).length === 0 && isOptional) return undefined;
  return fields.every((it) => it.isGuessed) && !isOptional ? unknownValue(made) : made;
}

const IS_UNKNOWN = Symbol('unknown');

/** Whether it stands for what is not known. */
export function isUnknown(value: unknown): boolean {
  return typeof value === 'function' && Reflect.get(value, IS_UNKNOWN) === true;
}

/**
 * Stands for what little is known of: an object of which every part is another, that reads as a short text.
 *
 * @param known - Parts that are known.
 */
export function unknownValue(known: Readonly<Record<string, unknown>> = {}): unknown {
  const target = (): unknown => made;
  const made: unknown = new Proxy(target, {
    get: (_, name) => {
      if (name === 'then') return undefined;
      if (name === IS_UNKNOWN) return true;
      if (typeof name === 'string' && Object.hasOwn(known, name)) return known[name];
      if (name === Symbol.toPrimitive) return (hint: string) => (hint === 'number' ? 1 : 'a');
      if (name === 'toString' || name === 'toJSON') return () => 'a';
      if (name === Symbol.iterator) return undefined;
      return unknownValue();
    },
    set: () => true,
  });
  return made;
}
