import type { LockUnderTest, MakeLock } from '../lock-under-test.js';
import { byIoredis } from './connected.js';
import { type Library, RETRIES, RETRY_DELAY_MS, RETRY_JITTER_MS } from './library.js';

/** What redlock 5 and its descendant have in common. */
interface Redlock5 {
  acquire(resources: string[], ttlMs: number): Promise<unknown>;
  using(resources: string[], ttlMs: number, routine: (signal: AbortSignal) => Promise<void>): Promise<void>;
}

type Redlock5Class = new (clients: readonly unknown[], settings: object) => Redlock5;

function driven(redlock: Redlock5): LockUnderTest {
  return {
    acquire: (resource, ttlMs) => redlock.acquire([resource], ttlMs),
    using: (resource, ttlMs, routine) => redlock.using([resource], ttlMs, routine),
  };
}

const SETTINGS = { retryCount: RETRIES, retryDelay: RETRY_DELAY_MS, retryJitter: RETRY_JITTER_MS };

const BELIEF = 'until lock.expiration by Date.now(), or lock.release(); in using(), until the signal aborts';

/** node-redlock as its authors have rewritten it. */
export const REDLOCK_5: Library = {
  id: 'redlock5',
  package: 'redlock',
  version: '5.0.0-beta.2',
  client: 'ioredis@5.11.1',
  belief: BELIEF,
  extendsItself: true,
  async load(connect = byIoredis): Promise<MakeLock> {
    // Its ES module cannot be loaded by Node as published (extensionless imports); this is what `require` gets.
    const { createRequire } = await import('node:module');
    const { default: Redlock } = createRequire(import.meta.url)('redlock5') as { readonly default: Redlock5Class };
    return (bed) => driven(new Redlock(connect(bed), SETTINGS));
  },
};

/** A fork of node-redlock 5 that is kept up. */
export const SESAMECARE: Library = {
  id: 'sesamecare',
  package: '@sesamecare-oss/redlock',
  version: '1.4.0',
  client: 'ioredis@5.11.1',
  belief: BELIEF,
  extendsItself: true,
  async load(connect = byIoredis): Promise<MakeLock> {
    const name = '@sesamecare-oss/redlock';
    const { Redlock } = (await import(name)) as { readonly Redlock: Redlock5Class };
    return (bed) => driven(new Redlock(connect(bed), SETTINGS));
  },
};
