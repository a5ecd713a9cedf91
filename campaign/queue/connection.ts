import type { Queue, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { InputError } from '../../scenarios/index.js';
import { withoutArguments, withoutPassword, withoutPasswords } from '../../text/secrets.js';

/** Where a campaign is, and what it is called there. */
export interface QueueAddress {
  /** As ioredis takes it: `redis://user:password@host:port/db`, or `rediss://` for TLS. */
  readonly url: string;
  readonly name: string;
}

const RETRY_MS = 500;
const CONNECT_MS = 5_000;

/**
 * A connection that is there. Should it be lost later, it is made again for as long as it takes.
 *
 * @throws InputError if it is no address, or nobody answers, or not as Redis; the password is not told.
 */
export async function connect({ url }: QueueAddress): Promise<Redis> {
  // What has another scheme, ioredis takes for the path of a socket.
  if (/^(?!rediss?:)[a-z][a-z0-9+.-]*:\/\//i.test(url))
    throw new InputError(`--queue: ${withoutPassword(url)} is no address; give one such as redis://127.0.0.1:6379`);
  const { Redis } = await needed(() => import('ioredis'), 'ioredis');
  let wasReady = false;
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: CONNECT_MS,
    // BullMQ asks for it: a command waits until the server is back.
    maxRetriesPerRequest: null,
    retryStrategy: () => (wasReady ? RETRY_MS : null),
  });
  let why = '';
  // The function that needs the connection reports it once; ioredis would print it each time.
  redis.on('error', (error: Error) => {
    why ||= withoutArguments(error).message;
  });
  try {
    await redis.connect();
    await redis.ping();
  } catch (error) {
    redis.disconnect();
    const reason = why || (error instanceof Error ? error.message : String(error));
    throw new InputError(`--queue: ${withoutPassword(url)} cannot be used: ${withoutPasswords(reason)}`);
  }
  wasReady = true;
  return redis;
}

/** BullMQ's classes. */
export async function bullmq(): Promise<{ Queue: typeof Queue; Worker: typeof Worker }> {
  return await needed(() => import('bullmq'), 'bullmq');
}

async function needed<T>(load: () => Promise<T>, name: string): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new InputError(`--queue: it needs the package ${name}, which is not installed; npm install ${name}`);
  }
}
