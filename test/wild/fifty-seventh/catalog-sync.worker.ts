import { randomUUID } from 'node:crypto';
import { DelayedError, Worker, type Job } from 'bullmq';
import IORedis from 'ioredis';
import pino from 'pino';
import { z } from 'zod';
import { catalogRepo } from '../catalog/repo';
import { env } from '../env';

const log = pino({ name: 'catalog-sync' });

const connection = new IORedis(env.REDIS_URL, { maxRetriesPerRequest: null });

// Supplier fetch is cut at 20s and the replace runs with a 30s statement timeout.
const LOCK_TTL_MS = 120_000;
const RETRY_DELAY_MS = 15_000;

const SupplierItem = z.object({
  sku: z.string(),
  name: z.string(),
  priceCents: z.number().int(),
  stock: z.number().int(),
});

interface SyncJob {
  supplierId: string;
  reason: 'webhook' | 'schedule' | 'manual';
}

async function fetchCatalog(supplierId: string) {
  const res = await fetch(`${env.SUPPLIER_GATEWAY}/suppliers/${supplierId}/items`, {
    headers: { authorization: `Bearer ${env.SUPPLIER_TOKEN}` },
    signal: AbortSignal.timeout(20_000),
  });
  if (!res.ok) throw new Error(`supplier ${supplierId} answered ${res.status}`);
  return z.array(SupplierItem).parse(await res.json());
}

/**
 * Webhooks tend to come in bursts, so the same supplier is often queued several times.
 * The replace deletes and re-inserts all rows of the supplier, two of those at once would
 * leave duplicates, hence one sync per supplier at a time.
 */
async function processSync(job: Job<SyncJob>, jobToken?: string) {
  const { supplierId, reason } = job.data;
  const lockKey = `catalog-sync:lock:${supplierId}`;

  try {
    const acquired = await connection.set(lockKey, randomUUID(), 'PX', LOCK_TTL_MS, 'NX');
    if (acquired !== 'OK') {
      log.debug({ jobId: job.id, supplierId }, 'supplier is being synced, delaying');
      await job.moveToDelayed(Date.now() + RETRY_DELAY_MS, jobToken);
      throw new DelayedError();
    }

    const items = await fetchCatalog(supplierId);
    await job.updateProgress(50);
    const { removed, inserted } = await catalogRepo.replaceAll(supplierId, items);

    log.info({ jobId: job.id, supplierId, reason, removed, inserted }, 'catalog synced');
    return { removed, inserted };
  } finally {
    // never leave the supplier locked, whatever happened above
    await connection.del(lockKey);
  }
}

export const worker = new Worker<SyncJob>('catalog-sync', processSync, {
  connection,
  concurrency: 8,
  lockDuration: 60_000,
});

worker.on('failed', (job, err) => {
  log.error({ err, jobId: job?.id, supplierId: job?.data.supplierId }, 'catalog sync failed');
});

process.once('SIGTERM', async () => {
  await worker.close();
  await connection.quit();
});
