import Redis from 'ioredis';
import Redlock, { ExecutionError, ResourceLockedError, type RedlockAbortSignal } from 'redlock5';
import type { Logger } from 'winston';

export interface SupplierItem {
  sku: string;
  title: string;
  priceCents: number;
  updatedAt: string;
}

export interface SupplierApi {
  page(supplierId: string, cursor: string | null, signal: AbortSignal): Promise<{ items: SupplierItem[]; next: string | null }>;
}

export interface CatalogStore {
  /**
   * INSERT ... ON CONFLICT (supplier_id, sku) DO UPDATE ... WHERE excluded.updated_at > items.updated_at
   */
  upsertNewer(supplierId: string, items: SupplierItem[], signal: AbortSignal): Promise<number>;
}

const nodes = (process.env.REDIS_LOCK_NODES ?? 'redis://lock-a:6379,redis://lock-b:6379,redis://lock-c:6379')
  .split(',')
  .filter(Boolean)
  .map((url) => new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 500 }));

const redlock = new Redlock(nodes, {
  retryCount: 3,
  retryDelay: 250,
  retryJitter: 150,
  driftFactor: 0.01,
  automaticExtensionThreshold: 4_000,
});

// 'error' without a listener would throw; what matters reaches us through the rejections
redlock.on('error', () => undefined);

const LOCK_MS = 15_000;

export class SupplierCatalogSync {
  constructor(
    private readonly api: SupplierApi,
    private readonly store: CatalogStore,
    private readonly log: Logger,
  ) {
    for (const node of nodes) {
      node.on('error', (err) => this.log.warn('lock node', { err: err.message }));
    }
  }

  /** `false` when another worker is on this supplier already. */
  async sync(supplierId: string): Promise<boolean> {
    let entered = false;
    try {
      await redlock.using([`catalog-sync:${supplierId}`], LOCK_MS, async (signal) => {
        entered = true;
        await this.pull(supplierId, signal);
      });
      return true;
    } catch (err) {
      if (!entered && err instanceof ExecutionError && (await onlyLocked(err))) {
        this.log.debug('supplier is being synced elsewhere', { supplierId });
        return false;
      }
      // Either a lock lost on the way, a release which failed, or the sync itself: the queue runs it again.
      throw err;
    }
  }

  /**
   * Stops at the first sign of the lock being lost. A batch already under way at that moment may
   * still land; it is the same rows with the same timestamps, and older ones never replace newer.
   */
  private async pull(supplierId: string, signal: RedlockAbortSignal): Promise<void> {
    let cursor: string | null = null;
    let changed = 0;

    do {
      assertHeld(signal);
      const page: { items: SupplierItem[]; next: string | null } = await this.api.page(
        supplierId,
        cursor,
        signal as unknown as AbortSignal,
      );

      assertHeld(signal);
      changed += await this.store.upsertNewer(supplierId, page.items, signal as unknown as AbortSignal);
      cursor = page.next;
    } while (cursor !== null);

    this.log.info('supplier synced', { supplierId, changed });
  }
}

function assertHeld(signal: RedlockAbortSignal): void {
  if (signal.aborted) {
    throw signal.error ?? new Error('catalog lock lost');
  }
}

async function onlyLocked(err: ExecutionError): Promise<boolean> {
  const last = await err.attempts[err.attempts.length - 1];
  if (!last) {
    return false;
  }
  const votes = [...last.votesAgainst.values()];
  return votes.length > 0 && votes.every((vote) => vote instanceof ResourceLockedError);
}

export async function shutdown(): Promise<void> {
  await Promise.allSettled(nodes.map((node) => node.quit()));
}
