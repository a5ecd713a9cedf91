import type { NodeRedisClient } from './node-redis.js';
import type { RedisConnection } from './request.js';
import { restAddressOf } from './rest.js';
import type { RedlockTransport } from './session.js';
import { isRedisUrl } from './url.js';

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

const NEEDED =
  'locks need a client of ioredis, iovalkey, node-redis or Upstash, or a transport with the method openSession';

/**
 * What something is that was given as a client and is none, to end a sentence with; `null` for what locks can use. Of
 * node-redis only `createClient` serves: its pool and its Sentinel send a command again, or later, on another connection.
 */
export function clientShapeError(client: unknown): string | null {
  if (typeof client === 'string') return isRedisUrl(client) ? null : 'a string, but no URL such as redis://host:port';
  if (typeof client !== 'object' || client === null) return `${nameOf(client)}, not a client`;
  if (has(client, 'then')) return 'a promise, not a client: await it first';
  if (isTransport(client) || isNodeRedis(client) || restAddressOf(client) !== null) return null;
  if (isOfNodeRedis(client)) {
    return 'a pool, Cluster or Sentinel of node-redis, which sends commands later or again: use createClient, or a client of ioredis';
  }
  return has(client, 'duplicate') ? null : `no client that is known: ${NEEDED}`;
}

/** Whether something is a {@link RedlockTransport}. */
export function isTransport(client: object): client is RedlockTransport {
  return has(client, 'openSession');
}

/** Whether something is what `createClient` of node-redis made. */
export function isNodeRedis(client: object): client is NodeRedisClient {
  return isOfNodeRedis(client) && has(client, 'createPool') && has(client, 'duplicate');
}

function isOfNodeRedis(client: object): boolean {
  return !has(client, 'defineCommand') && (has(client, 'scriptLoad') || has(client, 'evalSha'));
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
