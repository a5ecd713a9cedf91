import { clientKindIn } from './clients.js';
import { isFile } from './packages.js';
import type { ClientKind } from './result.js';

/* Files beside the one that is audited, which are not there. */

/** A file that has a client of Redis, by its name. */
const HAS_CLIENT = /redis|valkey|upstash|(?:^|[/._-])kv(?:$|[/._-])/i;
/** What it exports besides is no client, by its name: it is the lock, or what that is made of. */
const IS_OTHER = /lock|mutex|semaphore|lease|leader|elect|retry|sleep|delay|ttl|token|script/i;
const IS_CONSTANT = /^[A-Z][A-Z\d_]*$/;
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

function asPattern(request: string): string {
  return request.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

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

/** Whether a file that is not there gives a client of Redis. */
export function givesClient(request: string): boolean {
  return isFile(request) && HAS_CLIENT.test(request);
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
 * The text of a file that stands for one which is not there, and has a client of Redis by its name: that client by each name by which it
 * is imported. `null` for every other file.
 */
export function clientFile(request: string, text: string): string | null {
  if (!givesClient(request)) return null;
  const names = importedFrom(text, request);
  if ([request, ...names].some((it) => IS_OTHER.test(it))) return null;
  const { kind } = clientKindIn([{ text }]);
  const exported = names.map((name) => {
    if (IS_CONSTANT.test(name)) return `export const ${name} = 'a';`;
    return `export const ${name} = ${GIVES_CLIENT.test(name) ? '() => client' : 'client'};`;
  });
  const whole = GIVES_CLIENT.test(defaultOf(text, request)) ? '() => client' : 'client';
  const connects = kind === 'node-redis' && !/\.connect\(/.test(text) ? [CONNECTS] : [];
  return [CLIENTS[kind], ...connects, ...exported, `export default ${whole};`, ''].join('\n');
}
