import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2000, maxRetriesPerRequest: 1 });
redis.on('error', (e) => console.error(e.message));

const LOCK_TTL_MS = 10_000;

export class ResourceLockedError extends Error {
  constructor(readonly resource: string) {
    super(`${resource} is locked`);
  }
}

/** Serialises work on one invoice across all web workers. */
export async function withInvoiceLock<T>(invoiceId: string, fn: () => Promise<T>): Promise<T> {
  const key = `invoice:${invoiceId}:lock`;
  const acquired = await redis.set(key, randomUUID(), 'PX', LOCK_TTL_MS, 'NX');
  if (acquired !== 'OK') throw new ResourceLockedError(key);
  try {
    return await fn();
  } finally {
    await redis.del(key);
  }
}
