import { install } from '../host/install.js';
import { COMMAND_TIMEOUT_MS, type LockFactory, lockFactoryOf } from '../lock-factory.js';
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
import { REDLOCK_4 } from './redlock4.js';
import { REDLOCK_5, SESAMECARE } from './redlock5.js';
import { SIMPLE_REDIS_MUTEX, SIMPLE_REDIS_MUTEX_KEYS } from './simple-redis-mutex.js';
import { UPSTASH_LOCK } from './upstash-lock.js';
import { VERROU, VERROU_IMMEDIATELY } from './verrou.js';
import { WARLOCK } from './warlock.js';

export type { Library } from './library.js';

/** The libraries of the matrix that are handed connections to several nodes, in its order. */
export const LIBRARIES: readonly Library[] = [
  REDLOCK_4,
  REDLOCK_5,
  SESAMECARE,
  REDIS_SEMAPHORE,
  REDLOCK_UNIVERSAL,
  LOCKSTEP,
];

/** Those that run on clients of their own, which connect to the nodes; in the order of the matrix. */
export const CONNECTED: readonly Library[] = [
  REDIS_KIT,
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
export const MATRIX: readonly Library[] = [...LIBRARIES, ...CONNECTED];

/** Older versions to compare with, other calls, and what is no library; only by name. */
export const ONLY_BY_NAME: readonly Library[] = [
  REDIS_SEMAPHORE_5_3_0,
  REDIS_SEMAPHORE_5_3_1,
  SIMPLE_REDIS_MUTEX_KEYS,
  VERROU_IMMEDIATELY,
  PLAIN_NODE_REDIS_5,
  PLAIN_NODE_REDIS_6,
];

/** Loads a library behind the dispatchers. */
export async function loadSubject(
  library: Library,
  commandTimeoutMs: number | undefined = COMMAND_TIMEOUT_MS,
): Promise<LockFactory> {
  install();
  const make = await library.load().catch((error: unknown) => {
    throw missing(library, error);
  });
  const subject = await lockFactoryOf(`${library.package} ${library.version}`, make, commandTimeoutMs);
  return { ...subject, notPromised: library.notPromised ?? [] };
}

const NOT_FOUND = /^Cannot find (?:package|module) '([^'./][^']*)'/;

/** What to do about a library that is not there, or its client; any other error as it is. */
function missing({ package: name, version, client }: Library, error: unknown): unknown {
  const absent = error instanceof Error ? NOT_FOUND.exec(error.message)?.[1] : undefined;
  if (absent === undefined) return error;
  const wanted = `${name}@${version}`;
  const install = client === undefined && absent !== name ? `${absent}@npm:${wanted}` : wanted;
  return new Error(`it is not installed; npm install ${[install, client ?? ''].join(' ').trim()}`, { cause: error });
}
