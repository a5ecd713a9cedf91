import type { MakeLock } from '../lock-under-test.js';
import { byIoredis, type Connect } from './connected.js';
import { type Library, RETRIES, RETRY_DELAY_MS, RETRY_JITTER_MS } from './library.js';

async function load(connect: Connect = byIoredis): Promise<MakeLock> {
  const { Redlock } = await import('lockstep-redlock');
  const { newRuntime } = await import('../../real/lock/parts.js');
  return (bed) => {
    const settings = { retryCount: RETRIES, retryDelay: RETRY_DELAY_MS, retryJitter: RETRY_JITTER_MS };
    // Simulated processes draw few tokens each, and do not warn of an even number of nodes.
    const redlock = new Redlock(connect(bed), settings, newRuntime(4));
    return {
      acquire: (resource, ttlMs) => redlock.acquire([resource], ttlMs),
      using: (resource, ttlMs, routine) => redlock.using([resource], ttlMs, routine),
    };
  };
}

/** The lock of this project, like any other. */
export const LOCKSTEP: Library = {
  id: 'lockstep',
  package: 'lockstep-redlock',
  version: '0.1.0',
  client: 'ioredis@5.11.1',
  belief: 'while lock.remaining() is above zero, or until release(); in using(), until the signal aborts',
  extendsItself: true,
  load,
};
