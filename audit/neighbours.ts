import { addressOf } from '../libraries/net/addresses.js';
import { asPattern } from '../text/pattern.js';
import { clientKindIn } from './clients.js';
import { isLimit, OTHER_URL, placesFor } from './environment.js';
import { isFile, nameOfFile } from './packages.js';
import type { ClientKind } from './result.js';

/* Files beside the one that is audited, which are not there. */

/** A file that has a client of Redis, by its name. */
const HAS_CLIENT = /redis|valkey|upstash|(?:^|[/._-])kv(?:$|[/._-])/i;
/** What it exports besides is no client, by its name: it is the lock, or what that is made of. */
const IS_OTHER = /lock|mutex|semaphore|lease|leader|elect|retry|sleep|delay|ttl|token|script/i;
const IS_CONSTANT = /^[A-Z][A-Z\d_]*$/;
/** By its last word it is a client all the same: `lockRedis`. */
const IS_CLIENT = /(?:redis|valkey|client|conn(?:ection)?)s?$/i;
/** The name of one client, and of what gives it. */
const NAMES_CLIENT = /^(?:(?:get|create|connect|make)?_?(?:redis|valkey)(?:Client|Connection|Conn)?)$/i;
/** A file that may have one among other connections. */
const HAS_CONNECTIONS =
  /^(?:db|databases?|data-?sources?|(?:data-?)?stores?|connections?|clients?|infra(?:structure)?|deps|dependencies|services|context|container|resources|cache|shared|common|globals?|lib|app|setup|bootstrap)$/i;
const LISTS_CLIENTS = /(?:clients|connections|nodes|instances|redises)$/i;
const GIVES_CLIENT = /^(?:get|create|connect|make|open|use|new|init)(?![a-z])/;

const ofClass = (name: string): string =>
  `import Redis from '${name}';\nconst client = new Redis(process.env.REDIS_URL);`;
const CLIENTS: Readonly<Record<ClientKind, string>> = {
  ioredis: ofClass('ioredis'),
  iovalkey: ofClass('iovalkey'),
  'node-redis':
    "import { createClient } from 'redis';\nconst client = createClient({ url: process.env.REDIS_URL });\nclient.on('error', () => {});",
  upstash: "import { Redis } from '@upstash/redis';\nconst client = Redis.fromEnv();",
};
/** A client of `redis` has to be connected, unless the file that imports it does so. */
const CONNECTS = 'client.connect().catch(() => {});';

/** The names of what a file imports from another, but what that exports by default. */
function importedFrom(text: string, request: string): string[] {
  const from = asPattern(request);
  const lists = [
    ...text.matchAll(new RegExp(String.raw`\bimport\s+(?:\w+\s*,?\s*)?\{([^}]*)\}\s*from\s*['"]${from}['"]`, 'g')),
    ...text.matchAll(
      new RegExp(String.raw`\{([^}]*)\}\s*=\s*(?:await\s+)?(?:require|import)\(\s*['"]${from}['"]`, 'g'),
    ),
  ].map(([, list = '']) => list);
  return lists
    .flatMap((it) => it.split(','))
    .flatMap((it) => /^\s*(?:type\s+)?(\w+)/.exec(it)?.[1] ?? [])
    .filter((it) => it !== 'default');
}

/** A name that is no part of another one, and no property. */
const BEFORE_NAME = String.raw`(?<!\w|(?<!\.)\.)`;

function countOf(pattern: string, text: string): number {
  return text.match(new RegExp(pattern, 'g'))?.length ?? 0;
}

/**
 * The text of a file that stands for one which is not there, and of which a file has only names by which it is given something:
 * `@Inject(REDIS)`; `null` for every other file.
 */
export function tokensFile(request: string, text: string): string | null {
  const names = importedFrom(text, request);
  // Besides, it is named once as it is imported.
  const isToken = (name: string): boolean =>
    countOf(String.raw`${BEFORE_NAME}${name}(?!\w)`, text) ===
    1 + countOf(String.raw`\b[Ii]nject\(\s*${name}(?:\.KEY)?\s*\)|\btypeof\s+${name}\b(?!\.)`, text);
  if (!isFile(request) || names.length === 0 || defaultOf(text, request) !== '' || !names.every(isToken)) return null;
  // Settings of NestJS have their name in them: `@Inject(lockConfig.KEY)`.
  const textOf = (name: string): string => (text.includes(`${name}.KEY`) ? `{ KEY: '${name}' }` : `'${name}'`);
  return names.map((it) => `export const ${it} = ${textOf(it)};\n`).join('');
}

/** Whether a file that is not there gives a client of Redis. */
export function givesClient(request: string): boolean {
  return isFile(request) && HAS_CLIENT.test(request);
}

const HAS_SETTINGS = /^(?:config(?:uration|s)?|settings|env(?:ironment)?)$/i;
/** One that leads to a server of Redis: `lockRedisUrl`. */
const IS_SERVER = /redis\w*(?:url|uri|dsn|host)$/i;
/** Settings on which a lock may depend, and which cannot be guessed: times, and lists of nodes. */
const IS_NEEDED =
  /ttl|lease|lock|expir|timeout|interval|delay|wait|retr|duration|(?:secs?|seconds?|minutes?)$|nodes|urls|hosts/i;
const IN_MS = /(?:Ms|_ms|_MS)$/;

/** A list of servers, by its name; three of them stand for it where a file makes a client of each. */
const LISTS_SERVERS = /(?:nodes|urls|uris|dsns|hosts|servers|addresses|endpoints|instances)$/i;
const MAKES_CLIENTS =
  /\b(\w+)\.map\(\s*(?:async\s*)?\(?\s*(\w+)[^()]*\)?\s*=>\s*(?:\{\s*(?:const\s+\w+\s*=|return)\s*)?(?:new\s+Redis\(\s*\2|createClient\(\{\s*url(?::\s*\2)?)\b/g;
/** The same in one text, with what is between them: `env.REDIS_URLS.split(',')`. One that is not there may be empty. */
const SPLIT =
  /\b(\w+)!?(?:\s*(?:\?\?|\|\|)\s*(['"`])\2\s*\))?(?:\??\.(?:trim|toString)\(\))*\??\.split\(\s*(?:(['"`])(\s*[,;|\s]\s*)\3|\/[^/:]*[,;|][^/:]*\/)/g;
const ADDRESSES = [0, 1, 2].map(addressOf);
const SERVERS = `[${ADDRESSES.map(({ url }) => `'${url}'`).join(', ')}]`;

/**
 * The text of each list of servers of which a file makes clients, by its name.
 *
 * @param settings - Names of settings, which may be handed on under other names.
 */
function serverLists(text: string, settings: readonly string[]): ReadonlyMap<string, string> {
  const isList = ([, name = '']: readonly string[]): boolean => LISTS_SERVERS.test(name);
  const lists = [...text.matchAll(MAKES_CLIENTS)].filter(isList);
  const splits = [...text.matchAll(SPLIT)].filter((it) => isList(it) || IS_SERVER.test(it[1] ?? ''));
  const places = placesFor([{ text }], ADDRESSES);
  const handed = lists.length > 0 ? settings.filter((it) => LISTS_SERVERS.test(it)) : [];
  return new Map([
    ...handed.map((it) => [it, SERVERS] as const),
    ...lists.map(([, name = '']) => [name, SERVERS] as const),
    ...splits.map(([, name = '', , , between = ',']) => [name, `'${places.join(between)}'`] as const),
  ]);
}

/** Whether a lock may depend on a setting, by its name. */
function isNeeded(path: string): boolean {
  return (IS_NEEDED.test(path) && !IS_SERVER.test(path)) || IN_MS.test(path);
}

/** Whether a file has a value of its own for a setting wherever it reads that: `config.leaseMs ?? 45_000`. */
function hasDefault(text: string, path: string): boolean {
  const read = String.raw`${BEFORE_NAME}${path.replaceAll('.', String.raw`\??\.`)}(?![\w.]|\?\.)`;
  // What has no parts is named once as it is imported.
  const reads = countOf(read, text) - (path.includes('.') ? 0 : 1);
  return reads > 0 && countOf(String.raw`${read}\s*(?:\?\?|\|\|)`, text) === reads;
}

/** Whether a file that is not there has settings. */
export function hasSettings(request: string): boolean {
  return isFile(request) && HAS_SETTINGS.test(nameOfFile(request));
}

function lastOf(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}

/** Text of the value of a setting, by its path: `redis.url`. */
function settingOf(path: string, kind: ClientKind, lists: ReadonlyMap<string, string>): string {
  const servers = lists.get(lastOf(path));
  if (servers !== undefined) return servers;
  // The file has a value of its own for it, or it would not have been guessed.
  if (isNeeded(path)) return 'undefined';
  const isRest = kind === 'upstash';
  if (/redis|valkey|upstash|\bkv/i.test(path)) {
    if (/url|uri|dsn|endpoint|redis$/i.test(path))
      return `process.env.${isRest ? 'UPSTASH_REDIS_REST_URL' : 'REDIS_URL'}`;
    if (/token$/i.test(path)) return 'process.env.UPSTASH_REDIS_REST_TOKEN';
    if (/host$/i.test(path)) return "'redis'";
    return /port$/i.test(path) ? '6379' : 'undefined';
  }
  if (/url|uri|endpoint|base$/i.test(path)) return `'${OTHER_URL}'`;
  if (/(?:^|\.)(?:is|has)[A-Z]|enabled$/.test(path)) return 'true';
  if (isLimit(path)) return '1';
  return /size|count|batch|port$/i.test(path) ? '100' : "'a'";
}

/** Text of an object with these settings, as deep as their paths say. */
function settingsIn(
  paths: readonly string[],
  kind: ClientKind,
  lists: ReadonlyMap<string, string>,
  outer: string = '',
): string {
  const names = [...new Set(paths.map((it) => it.split('.', 1)[0] ?? ''))];
  const members = names.map((name) => {
    const inner = paths.filter((it) => it.startsWith(`${name}.`)).map((it) => it.slice(name.length + 1));
    const own = `${outer}${name}`;
    return `${name}: ${inner.length > 0 ? settingsIn(inner, kind, lists, `${own}.`) : settingOf(own, kind, lists)}`;
  });
  return `{ ${members.join(', ')} }`;
}

/**
 * The text of a file that stands for one which is not there, and has settings by its name, with all that the importing file reads of them;
 * `null` for every other file, and where a lock may depend on them and the file has no values of its own for that.
 */
export function settingsFile(request: string, text: string): string | null {
  if (!hasSettings(request)) return null;
  const { kind } = clientKindIn([{ text }]);
  const whole = defaultOf(text, request);
  const names = importedFrom(text, request);
  const readFrom = (name: string): string[] =>
    [...text.matchAll(new RegExp(String.raw`(?<![\w.])${name}((?:\??\.\w+)+)(\s*\()?`, 'g'))].map(
      ([, path = '', called]) => {
        const parts = path.replaceAll('?', '').split('.').slice(1);
        return (called === undefined ? parts : parts.slice(0, -1)).join('.');
      },
    );
  const read = new Map(
    [...names, ...(whole === '' ? [] : [whole])].map((it) => [it, readFrom(it).filter((path) => path !== '')]),
  );
  const lists = serverLists(text, [...read.values()].flat().map(lastOf));
  const isUnknown = (path: string): boolean => isNeeded(path) && !lists.has(lastOf(path)) && !hasDefault(text, path);
  const all = [...read].flatMap(([name, paths]) => [name, ...paths.map((path) => `${name}.${path}`)]);
  if (all.some(isUnknown)) return null;
  const textOf = (name: string): string => {
    const paths = read.get(name) ?? [];
    return paths.length > 0 ? settingsIn(paths, kind, lists) : settingOf(name, kind, lists);
  };
  const exported = names.map((it) => `export const ${it} = ${textOf(it)};`);
  return [...exported, exportedAs(text, request, whole === '' ? '{}' : textOf(whole)), ''].join('\n');
}

/** Text that exports a value as a whole: what a file gets that imports it by default, or requires it. */
function exportedAs(text: string, request: string, value: string): string {
  const isRequired = new RegExp(String.raw`\b\w+\s*=\s*require\(\s*['"]${asPattern(request)}['"]`).test(text);
  return isRequired ? `module.exports = ${value};` : `export default ${value};`;
}

/** How a file calls what another one exports by default, or all that it exports. */
function defaultOf(text: string, request: string): string {
  const from = asPattern(request);
  const [, imported, required] =
    new RegExp(
      String.raw`\bimport\s+(\w+)[^;'"]*from\s*['"]${from}['"]|\b(\w+)\s*=\s*require\(\s*['"]${from}['"]`,
    ).exec(text) ?? [];
  return imported ?? required ?? '';
}

/**
 * The text of a file that stands for one which is not there and has a client of Redis: one that is named after Redis gives it by each
 * name, one of connections (`./db`) by the names of clients alone. `null` for every other file.
 */
export function clientFile(request: string, text: string): string | null {
  const names = importedFrom(text, request);
  const isOfClients = givesClient(request);
  if (!isOfClients && !sharesClient(request, text)) return null;
  if ([request, ...names].some((it) => IS_OTHER.test(it) && !IS_CLIENT.test(it))) return null;
  const { kind } = clientKindIn([{ text }]);
  const givenAs = (name: string): string => {
    if (IS_CONSTANT.test(name)) return "'a'";
    if (!isOfClients && !NAMES_CLIENT.test(name)) return `others.${name}`;
    const isCalled = GIVES_CLIENT.test(name) || new RegExp(String.raw`(?<![\w.])${name}\(`).test(text);
    return `${isCalled ? '() => ' : ''}${LISTS_CLIENTS.test(name) ? '[client]' : 'client'}`;
  };
  const exported = names.map((it) => `export const ${it} = ${givenAs(it)};`);
  const whole = givenAs(defaultOf(text, request) || (isOfClients ? 'client' : 'default'));
  const connects = kind === 'node-redis' && !/\.connect\(/.test(text) ? [CONNECTS] : [];
  const others = isOfClients ? [] : [`import * as others from '${request}';`];
  return [...others, CLIENTS[kind], ...connects, ...exported, exportedAs(text, request, whole), ''].join('\n');
}

/** Whether a file that has connections by its name, and is not there, gives a client of Redis by a name of its own. */
export function sharesClient(request: string, text: string): boolean {
  return (
    isFile(request) &&
    HAS_CONNECTIONS.test(nameOfFile(request)) &&
    importedFrom(text, request).some((it) => NAMES_CLIENT.test(it))
  );
}
