import { addressOf, type NodeAddress } from '../libraries/net/addresses.js';
import { settingsAsked } from './service-settings.js';
import type { SourceFile } from './shapes.js';
import { IS_SECRET, SECRET } from './uses.js';

/** Read by packages rather than by the file. */
const USUAL: readonly string[] = [
  'REDIS_URL',
  'UPSTASH_REDIS_REST_URL',
  'UPSTASH_REDIS_REST_TOKEN',
  'KV_REST_API_URL',
  'KV_REST_API_TOKEN',
];

const READ = /\benv(?:\.([A-Z][A-Z0-9_]*)|\[\s*['"]([A-Z][A-Z0-9_]*)['"]\s*\])/g;
const TAKEN = /\{([^{}]*)\}\s*=\s*process\.env\b/g;

const COMPARED = /!==?\s*(?:`[^`]*\$\{\s*)?process\.env\.([A-Z][A-Z0-9_]*)/g;

/** What a method of is called as the file is loaded has to be there: `process.env.BROKERS.split(',')`. */
const CALLED = /\bprocess\.env\.([A-Z][A-Z0-9_]*)!?\.\w+\(/g;

/** The same of what ends the program, or throws, where it is not there: `if (!url) process.exit(1)`. */
const REQUIRED = /!\s*process\.env\.([A-Z][A-Z0-9_]*)\b(?!\.)/g;
const KEPT = /\b(\w+)(?:\s*:\s*\w[^=\n]*)?\s*=\s*process\.env\.([A-Z][A-Z0-9_]*)\s*[;,\n]/g;
/** What is read by a name that it is told: `process.env[name]`. */
const BY_NAME = /\benv\[\s*[a-z]\w*!?\s*\]/;
const QUOTED = /\(\s*['"]([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)['"]/g;

/** Names of what has to be there, and is no server of Redis as a rule. */
function requiredNames({ text }: SourceFile): string[] {
  const kept = [...text.matchAll(KEPT)].map(([, variable = '', name = '']) => [name, variable] as const);
  const isRequired = ([, variable]: readonly [string, string]): boolean => new RegExp(`!\\s*${variable}\\b`).test(text);
  return [
    ...[...text.matchAll(REQUIRED)].map(([, name = '']) => name),
    ...[...kept, ...takenIn(text)].filter(isRequired).map(([name]) => name),
    ...(BY_NAME.test(text) ? [...text.matchAll(QUOTED)].map(([, name = '']) => name) : []),
  ];
}

/** `const { DATABASE_URL: url } = process.env`: each variable of the environment, with the name that it is given. */
function takenIn(text: string): (readonly [name: string, variable: string])[] {
  const parts = [...text.matchAll(TAKEN)].flatMap(([, inner = '']) => [
    ...inner.matchAll(/\b([A-Z][A-Z0-9_]+)(?:\s*:\s*(\w+))?/g),
  ]);
  return parts.map(([, name = '', variable = name]) => [name, variable]);
}

const MADE = /\benv\[\s*`([^`]*)`\s*\]/g;
const LISTED = /\[([^\][]*)\]/g;
const WORD = /(['"])([A-Za-z0-9][A-Za-z0-9_]*)\1/g;

/** Names that a file lists, or that are made of what it lists: of a region, `REDIS_EU_URL`. */
function namesMade(text: string): string[] {
  const lists = [...text.matchAll(LISTED)].map(([, list = '']) => list).join();
  const words = [...lists.matchAll(WORD)].map(([, , word = '']) => word);
  const made = [...text.matchAll(MADE)].flatMap(([, name = '']) =>
    words.map((it) =>
      name.replaceAll(/\$\{([^}]*)\}/g, (_, by: string) => (by.includes('toUpperCase') ? it.toUpperCase() : it)),
    ),
  );
  return BY_NAME.test(text) ? [...made, ...words.filter((it) => /^[A-Z][A-Z0-9_]+$/.test(it))] : made;
}

/** Names that files read from the environment, in the order in which they are written. */
function namesIn(sources: readonly SourceFile[]): string[] {
  const names = sources.flatMap(({ text }) => [
    ...[...text.matchAll(READ)].map(([, dotted, quoted]) => dotted ?? quoted ?? ''),
    ...namesMade(text),
    ...settingsAsked(text),
    ...takenIn(text).map(([name]) => name),
  ]);
  return [...new Set([...names, ...sources.flatMap(requiredNames), ...USUAL])];
}

/** Variables that files split at commas, and so list servers by. */
const SPLIT = /\benv(?:\.|\[\s*['"])([A-Z][A-Z0-9_]*)\b(?:(?!\benv\b)[^;\n]){0,80}?\.split\(\s*['"]\s*,/g;

type Kind = 'rest' | 'token' | 'list' | 'url' | 'host' | 'port';

const IS_REDIS = /REDIS|VALKEY|UPSTASH|KV|LOCK|CACHE|QUEUE|NODE_\d|SENTINEL|CLUSTER|KEYDB|DRAGONFLY/;

function kindOf(name: string): Kind | null {
  if (/REST.*URL|UPSTASH.*URL/.test(name)) return 'rest';
  if (/REST.*TOKEN|UPSTASH.*TOKEN|KV.*TOKEN/.test(name)) return 'token';
  if (!IS_REDIS.test(name) || /TTL|TIMEOUT|PASS|USER|PREFIX|DB$|_MS$|TLS|SECRET|(?<!VAL)KEY(?!DB)/.test(name))
    return null;
  if (/(URLS|URIS|NODES|HOSTS|SERVERS|ADDRS|ADDRESSES|ENDPOINTS|INSTANCES)$/.test(name)) return 'list';
  if (/(?<![A-Z])PORT(?![A-Z])|REDISPORT/.test(name)) return 'port';
  if (/HOST(NAME)?|ADDR$/.test(name)) return 'host';
  return /URL|URI|DSN|CONNECTION|ENDPOINT|REDIS|NODE|VALKEY|SERVER/.test(name) ? 'url' : null;
}

/** Whether files take `host:port` apart, or make a URL of it. */
function takesPlaces(sources: readonly Pick<SourceFile, 'text'>[]): boolean {
  return sources.some(({ text }) => /split\(\s*['"]:['"]|`rediss?:\/\/\$\{/.test(text));
}

/** A list of servers in one text, or in texts that follow each other. */
const LISTS =
  /(['"`])((?:rediss?:\/\/)?[\w.-]+(?::\d+)?(?:\s*,\s*(?:rediss?:\/\/)?[\w.-]+(?::\d+)?)+)\1|\[\s*((?:(['"`])rediss?:\/\/[^'"`\s]+\4\s*,?\s*)+)\]/g;

/** How many servers a file lists; `null` where it lists none. */
export function serversIn(sources: readonly SourceFile[]): number | null {
  const lists = sources.flatMap(({ text }) => [...text.matchAll(LISTS)].map(([, , one, many]) => one ?? many ?? ''));
  const counts = lists
    .map((it) =>
      it
        .split(',')
        .map((server) => server.replace(/['"`\s]/g, ''))
        .filter((server) => server !== ''),
    )
    .filter((servers) => servers.every((server) => /^rediss?:|:\d+$/.test(server)))
    .map((servers) => new Set(servers).size);
  const most = Math.max(0, ...counts);
  return most > 1 ? most : null;
}

/** Whether files hand each of their servers to a client as a host, and never name a port. */
function takesHosts(sources: readonly Pick<SourceFile, 'text'>[]): boolean {
  const isHost = ({ text }: Pick<SourceFile, 'text'>): boolean => /\bnew \w+\(\s*\{[^}]*\bhost\b/.test(text);
  return sources.some(isHost) && !sources.some(({ text }) => /\bport\b/i.test(text));
}

/** Addresses as a file wants them: `n0`, `n0:6379`, or `redis://n0:6379`. */
export function placesFor(sources: readonly Pick<SourceFile, 'text'>[], addresses: readonly NodeAddress[]): string[] {
  const short = takesPlaces(sources);
  if (takesHosts(sources)) return addresses.map(({ host }) => host);
  return addresses.map(({ host, port, url }) => (short ? `${host}:${port}` : url));
}

const IS_LIMIT = /max|most|limit|parallel|concurren|permit|slots?$|capacity|seats|holders/i;
const IS_NO_LIMIT = /retr|attempt|tries|wait|ttl|timeout|delay|age|size|len|ms$|sec|score|depth|poll/i;
/** What counts holders, in the words of Redis, or by a library. */
const COUNTS = /\b(?:[zs]card|zcount|[hl]len|zrank|h?incr(?:by)?)\b|\bnew \w*Semaphore\(/i;

/** Whether files count the holders of a lock that several may hold. */
export function countsHolders(sources: readonly Pick<SourceFile, 'text'>[]): boolean {
  return sources.some(({ text }) => COUNTS.test(text));
}

/** Whether something is named like how many may hold at once. */
export function isLimit(name: string): boolean {
  return IS_LIMIT.test(name) && !IS_NO_LIMIT.test(name);
}

/** Whether files read from the environment how many may hold a lock at once: they are told 1. */
export function readsLimit(sources: readonly SourceFile[]): boolean {
  return countsHolders(sources) && namesIn(sources).some(isLimit);
}

/** Where another server is, which answers `fetch`. */
export const OTHER_URL = 'https://other.example';
const IS_PLACE = /(?:URL|URI|ENDPOINT|ORIGIN|API|BASE|SERVICE|SERVER|WEBHOOK)$/;

const IS_NUMBER = /TTL|TIMEOUT|INTERVAL|_(?:MS|SECS?|SECONDS|MINUTES|HOURS|DAYS|PORT|SIZE|COUNT|LIMIT|MAX|MIN)$/;

/** Where its work reads and writes files; no real file is written. */
const IS_FOLDER = /_(?:DIR|DIRECTORY|FOLDER|PATH|ROOT|BUCKET)$/;
const FOLDER = 'files';

const QUERY = /\bsearchParams\.(?:get|getAll|has)\(\s*['"]([\w.-]+)['"]/g;

/** Names of parameters that files read from the URL of a request. */
export function queriesIn(sources: readonly SourceFile[]): string[] {
  return [...new Set(sources.flatMap(({ text }) => [...text.matchAll(QUERY)].map(([, name = '']) => name)))];
}

/** Values for the environment that a file reads its servers from: they lead to the simulated nodes. */
export function environmentFor(sources: readonly SourceFile[], nodes: number): Record<string, string> {
  const values: Record<string, string> = {};
  const counts = new Map<Kind, number>();
  const [short, bare] = [takesPlaces(sources), takesHosts(sources)];
  const areCounted = countsHolders(sources);
  const required = new Set(sources.flatMap(requiredNames));
  const split = new Set(sources.flatMap(({ text }) => [...text.matchAll(SPLIT)].map(([, name]) => name)));
  const fetches = sources.some(({ text }) => /\bfetch\(/.test(text));
  for (const { text } of sources) for (const [, name = ''] of text.matchAll(COMPARED)) values[name] = SECRET;
  for (const { text } of sources) for (const [, name = ''] of text.matchAll(CALLED)) values[name] ??= 'a';
  for (const name of namesIn(sources)) {
    // Of what several may hold, that one holds it is what can be judged.
    if (areCounted && isLimit(name)) values[name] = '1';
    const named = kindOf(name);
    const kind = named === 'url' && split.has(name) ? 'list' : named;
    if (fetches && kind === null && IS_PLACE.test(name)) values[name] = OTHER_URL;
    if (kind === null && IS_SECRET.test(name)) values[name] = SECRET;
    if (kind === null && IS_FOLDER.test(name)) values[name] = FOLDER;
    if (kind === null && required.has(name) && !IS_NUMBER.test(name))
      values[name] ??= IS_PLACE.test(name) ? `${OTHER_URL}/a` : 'a';
    if (kind === null) continue;
    const isUsual = USUAL.includes(name);
    const nth = isUsual ? 0 : (counts.get(kind) ?? 0);
    if (!isUsual) counts.set(kind, nth + 1);
    const { host, port, url, restUrl } = addressOf(nth);
    const all = Array.from({ length: nodes }, (_, i) => addressOf(i));
    const place = (it: NodeAddress): string =>
      bare ? it.host : short || /HOSTS$/.test(name) ? `${it.host}:${it.port}` : it.url;
    const lists = all.map(place).join(',');
    values[name] = { rest: restUrl, token: 'token', list: lists, url, host, port: String(port) }[kind];
  }
  return values;
}
