import type { RedisConnection } from './request.js';

/** What an own connection must be able to do. */
const METHODS: readonly (keyof RedisConnection)[] = [
  'set',
  'evalsha',
  'eval',
  'get',
  'pttl',
  'script',
  'connect',
  'quit',
  'disconnect',
  'on',
];

/**
 * What something is that was given as a client and is none of ioredis, to end a sentence with; `null` for a client of
 * ioredis, of its forks, and for what makes connections like theirs.
 *
 * The clients of node-redis have `duplicate` and `set` too, but take the options of SET as an object: the arguments of a
 * lock would set a key without NX and without a TTL.
 */
export function clientShapeError(client: unknown): string | null {
  if (typeof client === 'string') return 'a string, not a client: make one with new Redis(url)';
  if (typeof client !== 'object' || client === null) return `${nameOf(client)}, not a client`;
  if (has(client, 'then')) return 'a promise, not a client: await it first';
  if (!has(client, 'defineCommand') && (has(client, 'scriptLoad') || has(client, 'evalSha'))) {
    return 'a client of node-redis (package redis), not of ioredis: its SET would set no lock';
  }
  return has(client, 'duplicate') ? null : 'no ioredis client: it has no method duplicate';
}

/** The same of what `duplicate` of a client made. */
export function connectionShapeError(connection: unknown): string | null {
  if (typeof connection !== 'object' || connection === null) return 'makes no connections';
  if (has(connection, 'then')) return 'makes promises, not connections';
  const missing = METHODS.filter((name) => !has(connection, name));
  return missing.length === 0 ? null : `makes connections without ${missing.join(', ')}`;
}

/** Whether a connection has what only ioredis, its forks and its mocks have, and therefore their SET. */
export function isOfIoredis(connection: RedisConnection): boolean {
  return has(connection, 'defineCommand');
}

function nameOf(client: unknown): string {
  return client === undefined || client === null ? String(client) : `a ${typeof client}`;
}

function has(thing: object, method: string): boolean {
  return typeof Reflect.get(thing, method) === 'function';
}
