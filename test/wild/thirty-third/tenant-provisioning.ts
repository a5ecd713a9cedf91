import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChainableCommander, Redis } from 'ioredis';

const TTL_MS = 30_000;
const RENEW_MS = 8_000;
const SAFETY_MS = 6_000;

export class TenantBusyError extends Error {}

/** Every step can be repeated (IF NOT EXISTS, upserts) and gives up on the signal. */
export interface TenantRepo {
  state(tenantId: string, signal: AbortSignal): Promise<'new' | 'schema' | 'ready'>;
  setState(tenantId: string, state: 'schema' | 'ready', signal: AbortSignal): Promise<void>;
  createSchema(tenantId: string, signal: AbortSignal): Promise<void>;
  seed(tenantId: string, signal: AbortSignal): Promise<void>;
}

// EVAL is not allowed for our user on the managed Redis, hence WATCH/MULTI.
// The connection belongs to one lock only and is used by one caller at a time.
async function ifOwner(
  conn: Redis,
  key: string,
  token: string,
  queue: (tx: ChainableCommander) => ChainableCommander,
): Promise<boolean> {
  await conn.watch(key);
  if ((await conn.get(key)) !== token) {
    await conn.unwatch();
    return false;
  }
  const replies = await queue(conn.multi()).exec();
  return replies?.[0]?.[1] === 1;
}

export async function withTenantLock<T>(
  redis: Redis,
  tenantId: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const key = `tenant:${tenantId}:provisioning`;
  const token = randomUUID();
  // No reconnecting: a WATCH does not survive one.
  const conn = redis.duplicate({
    retryStrategy: () => null,
    enableOfflineQueue: true,
    commandTimeout: 2_000,
  });
  conn.on('error', (err) => console.warn('lock connection', err.message));

  try {
    const lost = new AbortController();
    const finished = new AbortController();
    const askedAt = performance.now();
    if ((await conn.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') {
      throw new TenantBusyError(`tenant ${tenantId} is being provisioned already`);
    }

    const giveUp = () => lost.abort(new Error(`lock for tenant ${tenantId} was lost`));
    const arm = (since: number) => setTimeout(giveUp, since + TTL_MS - SAFETY_MS - performance.now());
    let watchdog = arm(askedAt);

    const renewing = (async () => {
      for (;;) {
        await sleep(RENEW_MS, undefined, { signal: finished.signal });
        const sentAt = performance.now();
        if (!(await ifOwner(conn, key, token, (tx) => tx.pexpire(key, TTL_MS)))) break;
        clearTimeout(watchdog);
        watchdog = arm(sentAt);
      }
      giveUp();
    })().catch(() => {
      if (!finished.signal.aborted) giveUp();
    });

    try {
      return await work(lost.signal);
    } finally {
      finished.abort();
      await renewing;
      clearTimeout(watchdog);
      await ifOwner(conn, key, token, (tx) => tx.del(key)).catch((err: Error) =>
        console.warn(`lock of tenant ${tenantId} left to expire: ${err.message}`),
      );
    }
  } finally {
    conn.disconnect();
  }
}

/** Safe to call again after a failure; continues with the first step not done. */
export async function provision(redis: Redis, repo: TenantRepo, tenantId: string): Promise<void> {
  await withTenantLock(redis, tenantId, async (signal) => {
    let state = await repo.state(tenantId, signal);
    if (state === 'new') {
      signal.throwIfAborted();
      await repo.createSchema(tenantId, signal);
      signal.throwIfAborted();
      await repo.setState(tenantId, 'schema', signal);
      state = 'schema';
    }
    if (state === 'schema') {
      signal.throwIfAborted();
      await repo.seed(tenantId, signal);
      signal.throwIfAborted();
      await repo.setState(tenantId, 'ready', signal);
    }
  });
}
