import { Redis } from 'ioredis';
import Redlock from 'redlock5';
import { Worker } from 'bullmq';

const connection = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { maxRetriesPerRequest: null });
const redlock = new Redlock([connection], { retryCount: 5, retryDelay: 300 });
redlock.on('error', () => {});

interface Supplier {
  id: string;
  endpoint: string;
}

async function pushCatalog(supplier: Supplier): Promise<number> {
  const signal = AbortSignal.timeout(40_000);
  const current = await fetch(`${supplier.endpoint}/catalog`, { signal }).then((r) => r.json());
  const res = await fetch(`${supplier.endpoint}/catalog`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...current, revision: current.revision + 1, pushedAt: Date.now() }),
    signal,
  });
  if (!res.ok) throw new Error(`supplier ${supplier.id}: ${res.status}`);
  return current.revision + 1;
}

async function syncSupplier(supplier: Supplier): Promise<number> {
  const lock = await redlock.acquire([`catalog:${supplier.id}`], 90_000).catch((err: Error) => {
    console.warn('catalog lock for %s: %s', supplier.id, err.message);
    return undefined;
  });

  try {
    return await pushCatalog(supplier);
  } finally {
    await lock?.release().catch(() => {});
  }
}

export const worker = new Worker<Supplier>(
  'catalog-sync',
  async (job) => {
    const revision = await syncSupplier(job.data);
    return { revision };
  },
  { connection, concurrency: 8 },
);
