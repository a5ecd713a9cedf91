import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import type { NodeAddress } from '../libraries/net/addresses.js';
import { InputError } from '../scenarios/input-error.js';
import type { ClientKind } from './result.js';
import type { SourceFile } from './shapes.js';
import { takeTexts } from './texts.js';

const PACKAGES: Readonly<Record<ClientKind, string>> = {
  ioredis: 'ioredis',
  'node-redis': 'redis',
  upstash: '@upstash/redis',
  iovalkey: 'iovalkey',
};

/** What is imported from where, and how it is called. */
const SIGNS: readonly (readonly [ClientKind, number, RegExp])[] = [
  ['ioredis', 10, /['"]ioredis['"]/],
  ['iovalkey', 10, /['"]iovalkey['"]/],
  ['node-redis', 10, /['"](?:redis|@redis\/client)['"]/],
  ['upstash', 10, /['"](?:@upstash\/redis(?:\/\w+)?|@vercel\/kv)['"]/],
  ['node-redis', 4, /RedisClientType|RedisClientOptions/],
  ['node-redis', 3, /\b(?:NX|XX|PX|EX|PXAT|EXAT)\s*:/],
  ['node-redis', 3, /\bkeys\s*:[^;]*\barguments\s*:/s],
  ['node-redis', 3, /\.(?:pExpire|setNX|evalSha|scriptLoad|sendCommand|pTTL)\s*\(/],
  ['upstash', 3, /\b(?:nx|xx|px|ex)\s*:/],
  ['upstash', 3, /\.eval\w*(?:<[^>]*>)?\s*\(\s*\w+\s*,\s*\[/],
  ['ioredis', 3, /\.set\s*\([^;]*?,\s*['"](?:PX|EX|NX|px|ex|nx)['"]/s],
  ['ioredis', 3, /\.eval(?:sha)?\s*\(\s*[^;]*?,\s*\d\s*,/s],
  ['ioredis', 2, /\.(?:pexpire|setnx|defineCommand|psetex|pttl)\s*\(/],
];

/** Which client the files use, by what they import and how they call it; ioredis where nothing tells. */
export function clientKindIn(sources: readonly Pick<SourceFile, 'text'>[]): {
  readonly kind: ClientKind;
  readonly isCertain: boolean;
} {
  const scores = new Map<ClientKind, number>();
  for (const [kind, score, sign] of SIGNS)
    if (sources.some(({ text }) => sign.test(text))) scores.set(kind, (scores.get(kind) ?? 0) + score);
  const [best, second] = [...scores].sort((a, b) => b[1] - a[1]);
  return { kind: best?.[0] ?? 'ioredis', isCertain: best !== undefined && best[1] > (second?.[1] ?? 0) };
}

type Listening = { on(event: string, listener: () => void): unknown };
type Constructor = new (...given: readonly unknown[]) => Listening;
type NodeRedis = Listening & { connect(): Promise<unknown> };

/** Commands of clients that are handed to a lock on several nodes reject after this, ms: one that is silent must not stop all. */
const COMMAND_TIMEOUT_MS = 500;

/** Makes clients of one kind, as users make them. */
export interface ClientMaker {
  readonly kind: ClientKind;
  make(address: NodeAddress, nodes: number): unknown;
  /** The class of the client, for a lock that makes its own from what it is handed. */
  readonly library: unknown;
  /** An instance of `redlock` above a client, for a file that is handed one; `undefined` where no file names the package. */
  redlock(client: unknown): unknown;
  /** An extension of that `redlock` gives a new lock, and makes the old one useless: from version 5 on. */
  readonly givesNewLocks: boolean;
}

/** Loads a client, preferably the one that the file at `path` would get. @throws InputError where it is not installed. */
export async function loadClient(kind: ClientKind, path: string, texts: readonly string[] = []): Promise<ClientMaker> {
  const name = PACKAGES[kind];
  const library = (await moduleNear(name, path)) as Readonly<Record<string, unknown>>;
  takeTexts(library);
  const redlock = redlockIn(texts);
  const Redlock = redlock === undefined ? undefined : classOf(await moduleNear(redlock, path).catch(() => undefined));
  return {
    kind,
    library,
    make: (address, nodes) => MAKERS[kind](library, address, nodes),
    redlock: (client) => Redlock && new Redlock([client]).on('error', () => {}),
    givesNewLocks: Object.hasOwn(Object(Redlock?.prototype), 'using'),
  };
}

/** The package that has it, where a file names that: also for its types alone. */
const REDLOCK =
  /\bfrom\s+['"]((?:@sesamecare-oss\/)?redlock[\w-]*)['"]|\brequire\(\s*['"]((?:@sesamecare-oss\/)?redlock[\w-]*)['"]/;

/** The name of the package by which files import `redlock`; `undefined` where none does. */
export function redlockIn(texts: readonly string[]): string | undefined {
  const [, imported, required] = texts.map((it) => REDLOCK.exec(it)).find((it) => it !== null) ?? [];
  return imported ?? required;
}

/** The class that a package exports by default, however it was compiled. */
function classOf(module: unknown): Constructor | undefined {
  const { default: inner = module } = Object(module) as { readonly default?: unknown };
  const found = typeof inner === 'function' ? inner : Object(inner).default;
  return typeof found === 'function' ? (found as Constructor) : undefined;
}

async function moduleNear(name: string, path: string): Promise<unknown> {
  for (const from of [path, import.meta.url]) {
    try {
      return await import(pathToFileURL(createRequire(from).resolve(name)).href);
    } catch {
      // The other place.
    }
  }
  throw new InputError(`the lock takes a client of ${name}, which is not installed; run npm install ${name}`);
}

type Make = (library: Readonly<Record<string, unknown>>, address: NodeAddress, nodes: number) => unknown;

const likeIoredis: Make = (library, { url }, nodes) => {
  const Client = (library.Redis ?? library.default) as Constructor;
  return new Client(url, nodes > 1 ? { commandTimeout: COMMAND_TIMEOUT_MS } : {}).on('error', () => {});
};

const MAKERS: Readonly<Record<ClientKind, Make>> = {
  ioredis: likeIoredis,
  iovalkey: likeIoredis,
  'node-redis': (library, { url }, nodes) => {
    const create = library.createClient as (options: object) => NodeRedis;
    const client = create({ url, ...(nodes > 1 ? { commandOptions: { timeout: COMMAND_TIMEOUT_MS } } : {}) });
    client.on('error', () => {});
    client.connect().catch(() => {});
    return client;
  },
  upstash: (library, { restUrl }) => {
    const Client = library.Redis as new (options: object) => unknown;
    return new Client({ url: restUrl, token: 'token' });
  },
};

interface SingleEntryCache {
  readonly prototype: { get(key: object): unknown; set(key: object, made: unknown): void };
}

/**
 * Lets node-redis keep the class of each configuration. It keeps the last one only, tells them apart by all options, and makes
 * a class again for each other address: 30 ms, for each client of each simulated process.
 */
export function keepClassesOfNodeRedis(path: string): void {
  for (const from of [path, import.meta.url]) {
    try {
      const client = createRequire(createRequire(from).resolve('redis')).resolve('@redis/client');
      const cache = createRequire(client)('./lib/single-entry-cache.js') as { readonly default: SingleEntryCache };
      keepAll(cache.default);
      return;
    } catch {
      // It is not there, or has no such cache.
    }
  }
}

/** What node-redis makes a class of (`attachConfig`); the other options are those of an instance. */
interface ClassOptions {
  readonly RESP?: number;
  readonly unstableResp3?: boolean;
  readonly modules?: Readonly<Record<string, object>>;
  readonly functions?: object;
  readonly scripts?: object;
}

function keepAll({ prototype }: SingleEntryCache): void {
  const made = new WeakMap<object, Map<string, unknown>>();
  const of = (cache: object): Map<string, unknown> => {
    const known = made.get(cache) ?? new Map<string, unknown>();
    made.set(cache, known);
    return known;
  };
  const ids = new WeakMap<object, number>();
  let last = 0;
  // A module has hundreds of commands, and is the same object each time.
  const idOf = (it: object): number => {
    const id = ids.get(it) ?? ++last;
    ids.set(it, id);
    return id;
  };
  const keyOf = (options: object): string | null => {
    const { RESP, unstableResp3, modules, functions, scripts } = options as ClassOptions;
    try {
      const known = Object.entries(modules ?? {}).map(([name, it]) => [name, idOf(it)]);
      return JSON.stringify([RESP, unstableResp3, known, functions, scripts]);
    } catch {
      return null;
    }
  };
  const { get, set } = prototype;
  prototype.get = function (key) {
    const text = keyOf(Object(key));
    return text === null ? get.call(this, key) : of(this).get(text);
  };
  prototype.set = function (key, it) {
    const text = keyOf(Object(key));
    if (text === null) set.call(this, key, it);
    else of(this).set(text, it);
  };
}
