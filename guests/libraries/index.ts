import { install } from '../host/install.js';
import { COMMAND_TIMEOUT_MS, type LockFactory, lockFactoryOf } from '../lock-factory.js';
import type { Library } from './library.js';
import { LOCKSTEP } from './lockstep.js';
import { REDIS_SEMAPHORE, REDIS_SEMAPHORE_5_3_0, REDIS_SEMAPHORE_5_3_1 } from './redis-semaphore.js';
import { REDLOCK_UNIVERSAL } from './redlock-universal.js';
import { REDLOCK_4 } from './redlock4.js';
import { REDLOCK_5, SESAMECARE } from './redlock5.js';

export type { Library } from './library.js';

/** The libraries of the matrix, in its order. */
export const LIBRARIES: readonly Library[] = [
  REDLOCK_4,
  REDLOCK_5,
  SESAMECARE,
  REDIS_SEMAPHORE,
  REDLOCK_UNIVERSAL,
  LOCKSTEP,
];

/** Older versions, to compare with; only by name. */
export const OLDER_VERSIONS: readonly Library[] = [REDIS_SEMAPHORE_5_3_0, REDIS_SEMAPHORE_5_3_1];

/** Loads a library behind the dispatchers. */
export async function loadSubject(
  library: Library,
  commandTimeoutMs: number | undefined = COMMAND_TIMEOUT_MS,
): Promise<LockFactory> {
  install();
  const make = await library.load().catch((error: unknown) => {
    throw missing(library, error);
  });
  return lockFactoryOf(`${library.package} ${library.version}`, make, commandTimeoutMs);
}

const NOT_FOUND = /^Cannot find package '([^']+)'/;

/** What to do about a library that is not there; any other error as it is. */
function missing(library: Library, error: unknown): unknown {
  const name = error instanceof Error ? NOT_FOUND.exec(error.message)?.[1] : undefined;
  if (name === undefined) return error;
  const wanted = `${library.package}@${library.version}`;
  const install = name === library.package ? wanted : `${name}@npm:${wanted}`;
  return new Error(`it is not installed; npm install ${install}`, { cause: error });
}
