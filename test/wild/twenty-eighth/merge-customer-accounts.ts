import { Redis } from 'ioredis';
import Redlock, { ResourceLockedError } from 'redlock5';

/**
 * Merges a duplicate customer account into the surviving one. Support staff trigger it by
 * hand and the nightly duplicate finder does so too, so both accounts are locked first.
 * Moving the orders of a large account can take minutes; redlock extends meanwhile.
 */

const LEASE_MS = 15_000;

const nodes = (process.env.REDLOCK_URLS ?? 'redis://lock-a:6379,redis://lock-b:6379,redis://lock-c:6379')
  .split(',')
  .map((url) => new Redis(url.trim(), { maxRetriesPerRequest: 1, commandTimeout: 500 }));

for (const node of nodes) {
  node.on('error', (err) => console.warn('[merge] lock node', err.message));
}

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 20,
  retryDelay: 250,
  retryJitter: 150,
  automaticExtensionThreshold: 5_000,
});

redlock.on('error', (err: unknown) => {
  // Contention is normal, everything else is worth a line in the log.
  if (err instanceof ResourceLockedError) return;
  console.error('[merge] redlock', err);
});

export interface Tx {
  moveOrders(from: string, to: string, limit: number): Promise<number>;
  moveAddresses(from: string, to: string): Promise<void>;
  /** Row-locks both accounts and sets merged_into; false if either was merged before. */
  markMerged(from: string, into: string): Promise<boolean>;
}

export interface CustomerStore {
  transaction<T>(body: (tx: Tx) => Promise<T>): Promise<T>;
  isMerged(customerId: string): Promise<boolean>;
}

const BATCH = 200;

export async function mergeCustomers(
  store: CustomerStore,
  duplicateId: string,
  survivorId: string,
): Promise<'merged' | 'already-merged'> {
  if (duplicateId === survivorId) throw new RangeError('cannot merge an account into itself');

  const resources = [duplicateId, survivorId].sort().map((id) => `lock:customer:${id}`);

  return redlock.using(resources, LEASE_MS, async (signal) => {
    const stopIfLost = () => {
      if (signal.aborted) throw signal.error ?? new Error('customer lock lost');
    };

    if ((await store.isMerged(duplicateId)) || (await store.isMerged(survivorId))) {
      return 'already-merged' as const;
    }

    // All in one transaction: when the lock is lost the throw rolls back what was moved.
    return store.transaction(async (tx) => {
      if (!(await tx.markMerged(duplicateId, survivorId))) return 'already-merged' as const;

      let moved: number;
      do {
        stopIfLost();
        moved = await tx.moveOrders(duplicateId, survivorId, BATCH);
      } while (moved === BATCH);

      stopIfLost();
      await tx.moveAddresses(duplicateId, survivorId);
      stopIfLost();
      console.info(`[merge] ${duplicateId} -> ${survivorId} done`);
      return 'merged' as const;
    });
  });
}

export async function closeLockNodes(): Promise<void> {
  await Promise.allSettled(nodes.map((node) => node.quit()));
}
