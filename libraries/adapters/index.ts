import { COMMAND_TIMEOUT_MS, type LockFactory, lockFactoryOf } from '../lock-factory.js';
import type { MakeLock } from '../lock-under-test.js';
import { install } from '../runtime/install.js';
import { require } from './connected.js';
import { IOREDIS_LOCK } from './ioredis-lock.js';
import type { Library } from './library.js';
import { LOCKSTEP } from './lockstep.js';
import { PLAIN_NODE_REDIS_5, PLAIN_NODE_REDIS_6 } from './plain-node-redis.js';
import { REDIS_KIT } from './redis-kit.js';
import { REDIS_LEADER } from './redis-leader.js';
import { REDIS_LOCK } from './redis-lock.js';
import { REDIS_SEMAPHORE, REDIS_SEMAPHORE_5_3_0, REDIS_SEMAPHORE_5_3_1 } from './redis-semaphore.js';
import { REDISLOCK } from './redislock.js';
import { REDLOCK_UNIVERSAL } from './redlock-universal.js';
import { REDLOCK_4, REDLOCK_4_SOCKET_TIMEOUT } from './redlock4.js';
import { REDLOCK_5, SESAMECARE } from './redlock5.js';
import { SIMPLE_REDIS_MUTEX, SIMPLE_REDIS_MUTEX_KEYS } from './simple-redis-mutex.js';
import { UPSTASH_LOCK } from './upstash-lock.js';
import { VERROU, VERROU_IMMEDIATELY } from './verrou.js';
import { WARLOCK } from './warlock.js';

export type { Library } from './library.js';

/** The libraries of the matrix that are made for several nodes, in its order. */
export const LIBRARIES: readonly Library[] = [
  REDLOCK_4,
  REDLOCK_5,
  SESAMECARE,
  REDIS_SEMAPHORE,
  REDLOCK_UNIVERSAL,
  LOCKSTEP,
  REDIS_KIT,
];

/** Those that are made for one node. */
const FOR_ONE_NODE: readonly Library[] = [
  REDIS_LOCK,
  WARLOCK,
  SIMPLE_REDIS_MUTEX,
  UPSTASH_LOCK,
  VERROU,
  IOREDIS_LOCK,
  REDISLOCK,
  REDIS_LEADER,
];

/** The matrix. */
export const MATRIX: readonly Library[] = [...LIBRARIES, ...FOR_ONE_NODE];

/** Older versions to compare with, other calls, and what is no library; only by name. */
export const ONLY_BY_NAME: readonly Library[] = [
  REDIS_SEMAPHORE_5_3_0,
  REDIS_SEMAPHORE_5_3_1,
  SIMPLE_REDIS_MUTEX_KEYS,
  VERROU_IMMEDIATELY,
  REDLOCK_4_SOCKET_TIMEOUT,
  PLAIN_NODE_REDIS_5,
  PLAIN_NODE_REDIS_6,
];

/** Loads a library behind the dispatchers. */
export async function loadSubject(
  library: Library,
  commandTimeoutMs: number | undefined = COMMAND_TIMEOUT_MS,
): Promise<LockFactory> {
  install();
  const make = await loaded(library).catch((error: unknown) => {
    throw missing(library, error);
  });
  const subject = await lockFactoryOf(`${library.package} ${library.version}`, make, commandTimeoutMs);
  return { ...subject, notPromised: library.notPromised ?? [] };
}

async function loaded({ load, client }: Library): Promise<MakeLock> {
  const make = await load();
  // Some make their clients, and so load them, only in a run.
  if (client !== undefined) require.resolve(client.slice(0, client.indexOf('@', 1)));
  return make;
}

const NOT_FOUND = /^Cannot find (?:package|module) '([^'./][^']*)'/;

/** What to do about a library that is not there, or its client; any other error as it is. */
function missing({ package: name, version, client }: Library, error: unknown): unknown {
  const absent = error instanceof Error ? NOT_FOUND.exec(error.message)?.[1] : undefined;
  if (absent === undefined) return error;
  if (client?.startsWith(`${absent}@`)) return notInstalled(client, error);
  // Of a package of which there are several versions, each has a name of its own.
  const wanted = absent === name ? `${name}@${version}` : `${absent}@npm:${name}@${version}`;
  return notInstalled(client === undefined ? wanted : `${wanted} ${client}`, error);
}

function notInstalled(wanted: string, cause: unknown): Error {
  return new Error(`it is not installed; npm install ${wanted}`, { cause });
}
