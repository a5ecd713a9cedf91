import { keepsHandlers } from './handed-functions.js';
import type { Parameter } from './parameter.js';

/** What a parameter is for. */
export type Role =
  | 'client'
  | 'clients'
  | 'url'
  | 'urls'
  /** The URL of another server than Redis. */
  | 'place'
  | 'host'
  | 'port'
  | 'connection'
  | 'credential'
  /** A key of an API, or what signatures are made with. */
  | 'secret'
  /** What makes requests, as the global `fetch` does. */
  | 'fetch'
  | 'library'
  | 'redlock'
  | 'key'
  | 'keys'
  | 'keyOf'
  | 'subject'
  | 'ttl'
  | 'token'
  | 'work'
  | 'callback'
  | 'descriptor'
  | 'response'
  | 'held'
  | 'options'
  | 'retries'
  | 'delay'
  | 'patience'
  | 'logger'
  | 'signal'
  | 'flag'
  | 'environment'
  | 'permits'
  | 'share'
  | 'number'
  | 'time'
  | 'unknown';

const IS_CLIENT_TYPE =
  /\b(?:createClient|Redis|IORedis|Valkey|RedisClient\w*|RedisLike|RedisConnection|Commander|Cluster|Upstash\w*|KV)\b|Redis(?:Client|Like|Connection|Instance)?\b|Redis\w*(?:Service|Provider|Manager|Module|Factory|Holder|Pool)\b/;
/** What has a client, and is asked for it. */
const IS_SERVICE = /(?:Service|Provider|Manager|Module|Factory|Holder|Pool|Wrapper|Container)$/;
/** What is called to do something with orders, users or jobs, and is none of these: `orders: OrderService`. */
const DOES_WORK =
  /^[A-Z]\w*(?:Service|Repository|Repo|Gateway|Api|API|Store|Dao|DAO|Mailer|Publisher|Producer|Workflow|Processor|Dispatcher|Sender|Notifier|Port|Adapter|Facade|UseCase|Engine)$/;
const IS_CONNECTION_TYPE =
  /\b(?:\w*Redis\w*|Connection|Socket|Client|Server|Node)(?:Options|Config|Settings|Opts)\b|\b(?:Node|Server)Address\b/;
const IS_CLIENT_NAME =
  /^_?(?:redis(?!_?(?:ur[il]|dsn|host(?:_?name)?|port|pass(?:word)?|user(?:name)?|db|database|tls)$)\w*|client|valkey|conn|connection|kv|store|cache|db|node|upstash|rc|r|ioredis|cmd|backend)$|(?:redis|client|conn(?:ection)?)$/i;
/** Of those, what other things are called as well. */
const IS_ANY_STORE_NAME = /^_?(?:kv|store|cache|db|node|r|rc|cmd|backend)$/i;
/** Types of what is asked for data besides Redis. */
const IS_DATABASE_TYPE =
  /(?:D[bB]|Database|Pool|DataSource|EntityManager|Repository|PrismaClient)\b|^(?:Knex|Kysely|Drizzle\w*|Sql)\b/;
/** Methods of clients of Redis. */
const OF_CLIENTS =
  /^(?:p?set(?:nx|ex)?|p?(?:expire|ttl)(?:at)?|m?get(?:del|ex|set)?|del|unlink|exists|incr\w*|decr\w*|eval\w*|script\w*|fcall\w*|multi|pipeline|exec|watch|unwatch|duplicate|(?:dis)?connect|quit|on|once|p?(?:un)?subscribe|publish|call|send_?command|defineCommand|ping|time|wait|keys|scan|h(?:m?[gs]et\w*|del|incr\w*|len|exists)|z\w+|s(?:add|rem|card|members|ismember)|b?[lr](?:push|pop|rem|range|len|trim)\w*)$/i;
const IS_CLIENTS_NAME =
  /^_?(?:clients|nodes|servers|instances|redises|connections|masters|stores)$|(?:clients|instances|connections|redises|nodes)$/i;
const IS_KEY_MAKER =
  /^(?:get|make|build|to|resolve)?_?(?:lock)?_?key|key(?:Fn|Of|For|By|Builder|Resolver|Generator)?$|^(?:id|name|resource|scope|slug)(?:For|By|Fn)$|^[a-z]\w*(?:Of|From)$/i;
const NAMES: readonly (readonly [Role, RegExp])[] = [
  ['urls', /^(?:urls|addresses|endpoints|hosts|uris)$|Urls$/],
  ['url', /^(?:url|uri|redis_?(?:[uU]r[il]|URL|dsn)|connectionString|endpoint|dsn)$|Url$/],
  ['host', /^(?:redis_?)?host(?:_?name)?$/i],
  ['port', /^(?:redis_?)?port$/i],
  ['credential', /^(?:redis_?)?(?:pass(?:word)?|user(?:name)?_?pass|auth|username|db|database|tls)$/i],
  ['unknown', /prefix|namespace|version|region/i],
  ['share', /factor|ratio|fraction|drift|skew/i],
  ['signal', /^(?:signal|abortSignal)$/],
  ['logger', /^(?:log|logger|console|metrics|tracer|telemetry)$/i],
  ['permits', /^(?:max_?)?(?:permits?|slots?|concurren\w*|parallel\w*|holders|limit)$/i],
  ['retries', /retr(?:y|ies)(?:Count|Max|Limit)?$|attempts?$|^tries$|max(?:Retr|Attempt|Tr)/i],
  [
    'delay',
    /^period_?(?:ms|millis|s|sec(?:ond)?s?)$|(?:delay|interval|backoff|jitter|pollMs|every|sleep|margin|slack|headroom|grace|cushion)/i,
  ],
  ['patience', /(?:node|server|redis|command|cmd|request|reply|response|call|op|connect|socket|network)_?timeout/i],
  ['patience', /(?:wait|acquireTimeout|acquisitionTimeout|deadline|patience|blockFor|maxWait|giveUp)/i],
  [
    'ttl',
    /(?:ttl|timeout|expir|lease|duration|^px$|^ex$|^ms$|^seconds$|^secs?$|lifetime|holdFor|lockFor|validity)|(?:lock|hold)\w*(?:ms|millis(?:econds)?|sec(?:ond)?s?)$/i,
  ],
  ['held', /^(?:lock|handle|lease|held|acquired|acquisition|guard|mutex|result|grant|claim|ticket|permit)$/i],
  [
    'token',
    /(?:token|owner|value|uuid|nonce|secret|identifier|holder|lockId|clientId|^val$|^id$|^me$|worker|instance)/i,
  ],
  ['keys', /^(?:keys|resources|names)$/],
  ['key', /^(?:month|period|day|date|year|week)$/],
  ['key', /(?:key|resource|name|job|slug|lock|task|topic|order|user|account|path|target|entity|id$|subject|what)/i],
];
const IS_WORK_NAME =
  /^(?:fn|cb|callback|task|work|job|routine|action|func|function|handler|body|operation|section|criticalSection|run|execute|f|effect|inner|next|thunk)$/i;
/** What looks at a request before the lock is asked for. */
const IS_CHECK_NAME = /^(?:verify|validate|parse|decode|authenticate|authori[sz]e)(?=[A-Z_]|$)/;
/** The type of what gives the elements of the work, one after the other. */
const GIVES_MANY =
  /^(?:\(.*\)\s*=>\s*)?(?:Async)?(?:Iterable|IterableIterator|Iterator|Generator)\b|^(?:\(.*\)\s*=>\s*)?ReadableStream\b/;
/** The type of what is told the names of events: it gives nothing. */
const TOLD_EVENTS = /^\(\s*\w*(?:event|message|msg|name|line|text)\w*\s*:\s*string\b.*\)\s*=>\s*void$/s;
const IS_HELD_NAME = /^(?:lock|handle|lease|held|acquired|guard|grant|claim|ticket|permit|result)$/i;
const IS_OPTIONS_TYPE = /Options|Config|Settings|Params|Props/;
const IS_OPTIONS_NAME = /^(?:opts?|options|config|cfg|settings|params|args|deps)$/i;
const IS_SUBJECT_NAME =
  /^(?:job|task|order|req|request|ctx|context|event|message|msg|item|record|entity|row|document|doc|invoice|payment|booking|user|account|payload|data|input)$/i;
const IS_ID_NAME =
  /(?:^|_)(?:id|key|uuid|slug|code|sku|number|ref)$|[a-z](?:Id|ID|Key|Uuid|Slug|Code|Number|Ref)$|^(?:name|email)$/;

/** How many of something there are, or how much of it. */
const IS_AMOUNT =
  /^(?:n|amount|count|total|frames|pages|steps|items|batch|size|times|quantity|qty|cents|price)$|(?:Count|Total|Size|Amount|Cents|Pages|Steps)$/;

/** What is no token of a lock. */
const IS_SECRET_NAME = /api_?key$|(?:signing|webhook|hmac|cron|jwt|client)_?secret$/i;
const IS_FETCH_NAME = /^_?(?:do|http)?_?fetch(?:Impl|Fn|er)?$/i;

/** What a consumer is handed beside a message, to tell the broker how far it is. */
const OF_MESSAGE =
  /^(?:heartbeat|ack|nack|reject|resolveOffset|commitOffsets\w*|uncommittedOffsets|isRunning|isStale|pause|changeMessageVisibility)$/;

/** What parameters were found to be for: each process of each run asks for the same ones. */
const KNOWN = [new WeakMap<Parameter, Role>(), new WeakMap<Parameter, Role>()] as const;

/** What a parameter is for, by its type and its name. */
export function roleOf(parameter: Parameter, isRelease = false): Role {
  const all = KNOWN[isRelease ? 1 : 0];
  const role = all.get(parameter) ?? roleFound(parameter, isRelease);
  all.set(parameter, role);
  return role;
}

function roleFound(parameter: Parameter, isRelease: boolean): Role {
  const { name, type, fields } = parameter;
  if (parameter.isKey === true) return 'key';
  // What handlers are added to is no options.
  if (isApplication(parameter)) return 'unknown';
  // `c.body(…)` answers a request.
  const isFunction =
    parameter.isFunction && (parameter.isGuessed !== true || (IS_WORK_NAME.test(name) && name !== 'body'));
  const isText = /^(?:readonly\s+)?string\b(?!\s*\[)/.test(type);
  const isNumber = /^number\b(?!\s*\[)/.test(type);
  if (parameter.isCallback === true) return 'callback';
  if (IS_FETCH_NAME.test(name) && /^(?:typeof (?:globalThis\.)?fetch)?$/.test(type) && (isFunction || type !== ''))
    return 'fetch';
  if (IS_SECRET_NAME.test(name) && (type === '' || isText)) return 'secret';
  if (/^I?Redlock$/.test(type) || (type === '' && name === 'redlock')) return 'redlock';
  if (IS_PERMIT_TIME.test(name) && !parameter.isOptional) return 'ttl';
  if (type === 'Date' || (parameter.isTime === true && (type === '' || isText || isNumber))) return 'time';
  if (name === 'env' || /\bProcessEnv\b/.test(type)) return 'environment';
  if (/\bPropertyDescriptor\b/.test(type) || /^(?:property)?_?descriptor$/i.test(name)) return 'descriptor';
  if (isResponse(parameter)) return 'response';
  if (isFunction && IS_KEY_MAKER.test(name)) return 'keyOf';
  // A method of what is handed over: `ledger.store`.
  if (parameter.isFunction && IS_ANY_STORE_NAME.test(name) && type !== '' && !IS_CLIENT_TYPE.test(type))
    return 'unknown';
  // `knex('users')` and a template of `sql` ask a database.
  if (isFunction && IS_DATABASE_TYPE.test(type)) return 'unknown';
  if (isFunction && !IS_CLIENT_NAME.test(name)) {
    if (isCheck(parameter) || OF_MESSAGE.test(name) || GIVES_MANY.test(type) || isComputed(parameter)) return 'unknown';
    const isTold = TOLD_EVENTS.test(type) && !IS_WORK_NAME.test(name);
    return isTold || /log|metric|on[A-Z]/.test(name) ? 'logger' : 'work';
  }
  if (/AbortSignal/.test(type) && !type.startsWith('{')) return 'signal';
  if (isLikeClient(fields)) return 'client';
  if (type === 'boolean') return 'flag';
  if (isText || isNumber) return roleOfPlain(parameter, isNumber);
  return roleOfObject(parameter, isRelease);
}

/** Whether a function only says whether something may be done, by its name, or by what it gives. */
function isCheck({ name, type }: Parameter): boolean {
  return IS_CHECK_NAME.test(name) || (!IS_WORK_NAME.test(name) && /=>\s*(?:Promise<boolean>|boolean)$/.test(type));
}

/** What may be a promise, or nothing, is work. */
const MAY_BE_WORK =
  /=>\s*(?:void|undefined|any|unknown|[A-Z]\w?|\w*(?:Promise|Awaitable|Thenable|Maybe)\w*\b.*|.*\bPromise(?:Like)?<.*|.*Generator.*)$/;

/** Whether a function only makes a value of another one, at once: `edit: (plan: Plan) => Plan`. */
function isComputed({ name, type }: Parameter): boolean {
  const [, given] = /^\(([^()]*)\)\s*=>/.exec(type) ?? [];
  return given !== undefined && given.trim() !== '' && !MAY_BE_WORK.test(type) && !IS_WORK_NAME.test(name);
}

/** Whether something is an application, a router or a queue: all that is called of it keeps what it is handed. */
export function isApplication({ name, fields, isFunction }: Parameter): boolean {
  const methods = fields.filter((it) => it.isFunction).map((it) => it.name);
  const isNamed =
    /^_?(?:app|application|router|fastify|server|api|http|bot|consumer|worker|queue|scheduler|cron|bus|broker)$|(?:App|Router|Server|Queue|Bus)$/.test(
      name,
    );
  if (isFunction || fields.length > methods.length) return false;
  return methods.includes('addHook') || (isNamed && keepsHandlers(methods));
}

/** How long a place may be kept, where it has to be said. */
const IS_PERMIT_TIME = /permit\w*(?:ms|millis(?:econds)?|sec(?:ond)?s?)$/i;

/** Of what only numbers are. */
const OF_NUMBERS: readonly Role[] = ['permits', 'retries', 'delay', 'patience', 'share', 'ttl'];

/** Of a text or a number. */
function roleOfPlain(parameter: Parameter, isNumber: boolean): Role {
  const { name, isOptional } = parameter;
  const role = roleByName(name);
  if (role === 'host' || role === 'port' || role === 'credential') return role;
  if (isNumber) {
    if (role !== undefined && OF_NUMBERS.includes(role)) return role;
    // A text names a month, and a number says how long a slot is.
    if (name === 'period') return 'delay';
    if (/(?:id|number|no)$/i.test(name) && !isOptional) return 'key';
    if (IS_AMOUNT.test(name)) return 'number';
    // What has a default is no more than a number, unless its name says that it is a TTL.
    return role === undefined && !isOptional ? 'ttl' : 'number';
  }
  if (parameter.opens) return 'url';
  if (isOtherUrl(name)) return 'place';
  if (role === 'unknown' && isOptional) return role;
  return role === 'token' || role === 'url' ? role : 'key';
}

/** Whether it is the URL of another server than Redis, by its name: `feedUrl`. */
function isOtherUrl(name: string): boolean {
  if (/^(?:api|service|provider|gateway|backend)(?:Base|Root|Origin|Host|Endpoint)$/.test(name)) return true;
  return /Url$/.test(name) && !/redis|valkey|cache|node|lock|server|conn|db|kv|primary|master|rest/i.test(name);
}

/** Of what is no text and no number, or of which its type does not tell. */
function roleOfObject(parameter: Parameter, isRelease: boolean): Role {
  const { name, type, fields, opens, isForeign = false } = parameter;
  if (/^Iterable<string>$/.test(type)) return 'keys';
  if (/^(?:Async)?(?:Iterable|Iterator|Generator)\w*<|^ReadableStream\b/.test(type)) return 'unknown';
  if (IS_CLIENTS_NAME.test(name)) return /string|host/.test(type) || isAddress(fields) ? 'urls' : 'clients';
  if (isListType(type) || (type === '' && isUsedAsList(fields))) {
    if (IS_CLIENT_TYPE.test(type)) return 'clients';
    return /ur[li]s?$|node|server|host|addr|endpoint|master|instance/i.test(name) ? 'urls' : 'keys';
  }
  if (IS_CONNECTION_TYPE.test(type) && (opens || IS_CLIENT_NAME.test(name))) return 'connection';
  // What is written out has a client, and is none.
  if (IS_CLIENT_TYPE.test(type) && !/^\{|Options|Config|Lock\b/.test(type))
    return /typeof(?! createClient)|new \(/.test(type) ? 'library' : 'client';
  // That of a request is no work.
  if (type === '' && fields.length === 0 && IS_WORK_NAME.test(name) && !(name === 'body' && parameter.isGuessed))
    return name === 'job' || name === 'task' ? 'key' : 'work';
  if (opens && fields.length === 0) return 'connection';
  if (IS_CLIENT_NAME.test(name) && type !== 'Request') {
    if (isForeign || IS_DATABASE_TYPE.test(type) || (IS_ANY_STORE_NAME.test(name) && isNoClient(fields)))
      return 'unknown';
    return opens || isAddress(fields) ? 'connection' : 'client';
  }
  if (isRelease && IS_HELD_NAME.test(name)) return 'held';
  const isOptions = IS_OPTIONS_TYPE.test(type) || IS_OPTIONS_NAME.test(name) || name === '';
  if (fields.length > 0 || type.startsWith('{') || isOptions) return isSubject(parameter) ? 'subject' : 'options';
  // Something is kept with a request of which nothing is read.
  if (type === '' && /^_?(?:req(?:uest)?|message|msg|event|record)$/.test(name)) return 'subject';
  if (!opens && isOtherUrl(name)) return 'place';
  const role = roleByName(name);
  // A method of what is handed over: `isPaid` is no id.
  if (role === undefined || (parameter.isFunction && role !== 'logger') || DOES_WORK.test(type)) return 'unknown';
  return role === 'held' && !isRelease ? 'key' : role;
}

function roleByName(name: string): Role | undefined {
  return NAMES.find(([, pattern]) => pattern.test(name))?.[0];
}

/** What no order, job or user has: it says how a lock is to be, or whose it is. */
const OF_LOCKS: readonly Role[] = [
  'permits',
  'client',
  'clients',
  'url',
  'urls',
  'host',
  'port',
  'connection',
  'library',
  'ttl',
  'work',
  'retries',
  'delay',
  'patience',
  'logger',
  'signal',
];

/** Whether a number is a TTL by its name, rather than because it is nothing else. */
export function saysTtl(name: string): boolean {
  return roleByName(name) === 'ttl';
}

/** Whether an object is what a lock is about, as an order, rather than how it is to be. */
function isSubject({ name, type, fields }: Parameter): boolean {
  if (IS_OPTIONS_TYPE.test(type) || IS_OPTIONS_NAME.test(name)) return false;
  // The URL of a request is no server.
  const isRequest = type === 'Request' || /^req(?:uest)?$/.test(name);
  const isOfLock = (it: Parameter): boolean => OF_LOCKS.includes(roleOf(it)) && !(isRequest && it.name === 'url');
  if (fields.some((it) => isOfLock(it) || /token|nonce|owner|^(?:key|resource)$/i.test(it.name))) return false;
  return IS_SUBJECT_NAME.test(name) || hasId(fields);
}

function hasId(fields: readonly Parameter[]): boolean {
  return fields.some((it) => isId(it) || hasId(it.fields));
}

/** Whether a field tells one thing from another of its kind. */
export function isId({ name, isFunction }: Parameter): boolean {
  return !isFunction && IS_ID_NAME.test(name);
}

/** Whether the fields of an object say where a server is. */
export function isAddress(fields: readonly Parameter[]): boolean {
  return fields.some(({ name, isFunction }) => !isFunction && /^(?:host|hostname|port|url)$/.test(name));
}

/** Whether it is the answer to a request. */
export function isResponse({ name, type }: Parameter): boolean {
  return /^_?(?:res|response|reply)$/.test(name) && (type === '' || /Response|Reply|^Res$/.test(type));
}

/** Whether what a parameter is given says which lock it is about. */
export function namesResource(parameter: Parameter): boolean {
  const role = roleOf(parameter);
  if (role === 'options') return parameter.fields.some((it) => !it.isOptional && namesResource(it));
  return role === 'key' || role === 'subject';
}

/** Whether the type of a parameter is that of a list. */
export function isListType(type: string): boolean {
  return /\[\]$|^(?:readonly\s+)?(?:Readonly)?Array</.test(type.trim());
}

/** Whether all that is asked of something without a type is what lists have. */
function isUsedAsList(fields: readonly Parameter[]): boolean {
  const isOfList = ({ name }: Parameter): boolean =>
    /^(?:map|flatMap|forEach|filter|reduce|entries|length)$/.test(name);
  return fields.some(({ name, isFunction }) => name !== 'length' && isFunction) && fields.every(isOfList);
}

/** Whether it is no client, and has one. */
export function hasClient({ name, type }: Parameter): boolean {
  return IS_SERVICE.test(type === '' ? name : type);
}

/** Whether something has methods that are called, and none of them is that of a client of Redis. */
function isNoClient(fields: readonly Parameter[]): boolean {
  const asked = fields.filter(({ isFunction }) => isFunction);
  return asked.length > 0 && !asked.some(({ name }) => OF_CLIENTS.test(name));
}

/** Whether an object is described by what is asked of a client. */
function isLikeClient(fields: readonly Parameter[]): boolean {
  const has = (name: string): boolean => fields.some((it) => it.name === name && it.isFunction);
  // The context of a request: `ctx.get('Idempotency-Key')`, `ctx.throw(400)`.
  if (fields.some(({ name }) => /^(?:throw|request|response|status)$/.test(name))) return false;
  return has('set') && (has('eval') || has('del') || has('get'));
}

/** Whether a function is given something of a role, by itself or among its options. */
export function hasRole(parameters: readonly Parameter[], role: Role): boolean {
  return parameters.some(
    (it) => roleOf(it) === role || (roleOf(it) === 'options' && it.fields.some((field) => roleOf(field) === role)),
  );
}

/** Whether a function may be given a TTL, and has one without that. */
export function mayGiveTtl({ parameters }: { readonly parameters: readonly Parameter[] }): boolean {
  const isTtl = (it: Parameter): boolean => roleOf(it) === 'ttl';
  return parameters.some(
    (it) =>
      (it.isOptional && isTtl(it)) || it.fields.some((field) => (it.isOptional || field.isOptional) && isTtl(field)),
  );
}
