import type { MakeLock } from '../lock-under-test.js';
import { byIoredis, type Connect, ioredisWith } from './connected.js';
import { type Library, RETRIES, RETRY_DELAY_MS, RETRY_JITTER_MS } from './library.js';

/** As far as it is used here; 4.x has no types of its own. */
interface Redlock4 {
  lock(resource: string, ttlMs: number): PromiseLike<Lock4>;
}

interface Lock4 {
  readonly expiration: number;
  unlock(): PromiseLike<void>;
  extend(ttlMs: number): PromiseLike<Lock4>;
}

type Redlock4Class = new (clients: readonly unknown[], options: object) => Redlock4;

async function load(connect: Connect = byIoredis): Promise<MakeLock> {
  const name = 'redlock4';
  const { default: Redlock } = (await import(name)) as { readonly default: Redlock4Class };
  const options = { retryCount: RETRIES, retryDelay: RETRY_DELAY_MS, retryJitter: RETRY_JITTER_MS };
  return (bed) => {
    const redlock = new Redlock(connect(bed), options);
    return { acquire: (resource, ttlMs) => redlock.lock(resource, ttlMs) };
  };
}

/** node-redlock as npm has it as `latest`. */
export const REDLOCK_4: Library = {
  id: 'redlock4',
  package: 'redlock',
  version: '4.2.0',
  client: 'ioredis@5.11.1',
  belief: 'until lock.expiration by Date.now(), or lock.unlock()',
  extendsItself: false,
  load,
};

/** After so many ms in which nothing comes on a connection that owes an answer, ioredis opens another. */
const SOCKET_TIMEOUT_MS = 300;

/** The same where ioredis gives up connections that are silent: see `docs/findings/redlock4-token-reuse.md`. */
export const REDLOCK_4_SOCKET_TIMEOUT: Library = {
  ...REDLOCK_4,
  id: 'redlock4-socket-timeout',
  load: () => load(({ addresses }) => addresses.map(ioredisWith({ socketTimeout: SOCKET_TIMEOUT_MS }))),
};
