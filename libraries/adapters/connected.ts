import { createRequire } from 'node:module';
import { sep } from 'node:path';
import type { Redis, RedisOptions } from 'ioredis';
import type { HeldLock, TestBed } from '../lock-under-test.js';
import type { NodeAddress } from '../net/addresses.js';

/** A client of node-redis 4 or later, before a library has it. */
export interface NodeRedis {
  on(event: 'error', listener: () => void): NodeRedis;
  connect(): Promise<unknown>;
  duplicate(overrides: { socket: Pick<NodeAddress, 'host' | 'port'> }): NodeRedis;
}

/** Packages that are no ES modules, and clients under the names of `package.json`. */
export const require: NodeJS.Require = createRequire(import.meta.url);

/**
 * A copy of a package for one simulated process alone, where it keeps something at the top of its modules.
 *
 * @param others - Packages below it that do so as well.
 */
export function ownCopy(name: string, ...others: readonly string[]): unknown {
  const folders = [name, ...others].map((it) => `${sep}node_modules${sep}${it}${sep}`);
  for (const path of Object.keys(require.cache))
    if (folders.some((folder) => path.includes(folder))) delete require.cache[path];
  return require(name);
}

/** After so many ms without an answer a command of ioredis is rejected. */
const TIMEOUT_MS = 500;

/** Makes clients of ioredis. Errors of their connections are for their commands to tell. */
export function ioredisWith(options: RedisOptions): (address: NodeAddress) => Redis {
  const { Redis: Client }: { Redis: new (options: RedisOptions) => Redis } = require('ioredis');
  return ({ host, port }) => new Client({ host, port, commandTimeout: TIMEOUT_MS, ...options }).on('error', () => {});
}

/** A client of ioredis, of a node. */
export function ioredisOf(address: NodeAddress): Redis {
  return ioredisWith({})(address);
}

/** How a library for several nodes gets its clients. */
export type Connect = (bed: TestBed) => readonly Redis[];

/** It makes them, as in production. */
export const byIoredis: Connect = ({ addresses }) => addresses.map(ioredisOf);

/** It is handed them. */
export const handed: Connect = ({ nodes }) => nodes;

/** Makes such clients: copies of one, which are made in a hundredth of the time that others take. */
export function nodeRedisOf(module: string): (address: NodeAddress) => NodeRedis {
  const { createClient }: { createClient: () => NodeRedis } = require(module);
  const client = createClient();
  return ({ host, port }) => client.duplicate({ socket: { host, port } }).on('error', () => {});
}

/** node-redis as it was up to 3: with callbacks. */
export interface OldClient {
  on(event: 'error', listener: () => void): OldClient;
}

/** Makes such clients. */
export function oldClientOf(): (address: NodeAddress) => OldClient {
  const { createClient }: { createClient: (address: Partial<NodeAddress>) => OldClient } = require('redis3');
  return ({ host, port }) => createClient({ host, port }).on('error', () => {});
}

/** A client, and when it sent the SET that was granted, by `performance.now()`. */
export interface Noting<T> {
  readonly client: T;
  readonly sentAt: () => number;
}

/**
 * The same client for one acquisition, which notes when it sent the first SET that is answered with OK: the TTL of its key begins
 * no sooner. Of a library that tries again and says nothing of time, no caller could know more.
 */
export function noting<T extends object>(of: T): Noting<T> {
  let at: number | null = null;
  const client = new Proxy(of, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...argv: unknown[]) => {
        const now = performance.now();
        const answer: unknown = Reflect.apply(value, target, argv);
        if (name === 'set' && answer instanceof Promise)
          answer.then(
            (said) => {
              if (said === 'OK') at ??= now;
            },
            () => {},
          );
        return answer;
      };
    },
  });
  return { client, sentAt: () => at ?? Number.NEGATIVE_INFINITY };
}

/**
 * What a careful caller counts on of a TTL that began then, ms: less what redis.io allows for drift. That is for libraries
 * that say nothing of how long a lock is held.
 */
export function leftOf(ttlMs: number, since: number): () => number {
  return () => since + ttlMs - ttlMs / 100 - 2 - performance.now();
}

/** What a careful caller does with a lock of which so little may be left that it cannot be counted on: gives it back. */
export async function unlessOver<T extends Pick<HeldLock, 'remaining' | 'release'>>(held: T): Promise<T | null> {
  if ((held.remaining?.() ?? 0) > 0) return held;
  await held.release?.();
  return null;
}

/** A held lock of which its library says nothing. */
export interface Counted {
  remaining: () => number;
}

/**
 * Extends such a lock. Until the answer is there, a careful caller counts on no more than it had, and on no more than it asks
 * for: a TTL may get shorter as well.
 */
export async function extended<T extends Counted>(
  held: T,
  ttlMs: number,
  call: () => Promise<boolean>,
): Promise<T | false> {
  const [before, next] = [held.remaining, leftOf(ttlMs, performance.now())];
  held.remaining = () => Math.min(before(), next());
  if (!(await call()) || next() <= 0) return false;
  held.remaining = next;
  return held;
}
