// Worker of the queue "supplier-sync": copies the price list of a supplier into our items table.
// Jobs come from the nightly schedule, from webhooks and from a button in the admin. The lock per
// supplier is there so that we do not read the same list twice at once and waste our quota; the
// rows themselves are safe in any order, see savePage.
import { DelayedError, Worker, type Job } from 'bullmq';
import { Redis } from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import { sql } from '../db';
import { logger } from '../logger';

interface SyncJob {
  supplierId: string;
  baseUrl: string;
}

interface Page {
  items: { sku: string; price_cents: number; rev: number }[];
  next: string | null;
}

const url = process.env.REDIS_URL ?? 'redis://localhost:6379';
const connection = new Redis(url, { maxRetriesPerRequest: null });
const lockClient = new Redis(url, { maxRetriesPerRequest: 1 });

const redlock = new Redlock([lockClient], {
  retryCount: 3,
  retryDelay: 300,
  retryJitter: 100,
  automaticExtensionThreshold: 10_000,
});
// Emitted for every refused attempt too; a busy supplier is not worth a log line.
redlock.on('error', (err) => logger.trace({ err }, 'redlock'));

async function fetchPage(href: string): Promise<Page> {
  const res = await fetch(href, { signal: AbortSignal.timeout(8_000) });
  if (!res.ok) throw new Error(`${href}: ${res.status}`);
  return (await res.json()) as Page;
}

// `rev` is the supplier's own counter. An older page that arrives late changes nothing.
async function savePage(supplierId: string, page: Page) {
  if (page.items.length === 0) return;
  const rows = page.items.map((item) => ({ ...item, supplier_id: supplierId }));
  await sql`
    insert into items ${sql(rows, 'supplier_id', 'sku', 'price_cents', 'rev')}
    on conflict (supplier_id, sku) do update
      set price_cents = excluded.price_cents, rev = excluded.rev
      where items.rev < excluded.rev`;
}

async function sync(job: Job<SyncJob>, token?: string) {
  const { supplierId, baseUrl } = job.data;
  let entered = false;

  try {
    return await redlock.using([`supplier-sync:${supplierId}`], 30_000, async (signal) => {
      entered = true;
      let pages = 0;
      let next: string | null = `${baseUrl}/prices`;
      while (next) {
        if (signal.aborted) throw signal.error ?? new Error('lock lost');
        const page: Page = await fetchPage(next);
        if (signal.aborted) throw signal.error ?? new Error('lock lost');
        await savePage(supplierId, page);
        pages += 1;
        next = page.next;
        await job.updateProgress(pages);
      }
      return { pages };
    });
  } catch (err) {
    if (err instanceof ExecutionError && !entered) {
      // somebody else is at it; come back later without using up an attempt
      await job.moveToDelayed(Date.now() + 20_000, token);
      throw new DelayedError();
    }
    // anything else goes to BullMQ, the next attempt starts from the first page again
    throw err;
  }
}

const worker = new Worker<SyncJob>('supplier-sync', sync, { connection, concurrency: 5 });

worker.on('failed', (job, err) => logger.error({ err, job: job?.id }, 'supplier sync failed'));

process.once('SIGTERM', async () => {
  await worker.close();
  await Promise.allSettled([connection.quit(), lockClient.quit()]);
});
