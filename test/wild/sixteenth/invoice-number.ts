import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Invoice numbers must have no gaps, so they cannot come from INCR: the next
 * number is the last stored one plus one, and both steps run under a lock.
 * Each hold has a fence that grows; the ledger refuses an older fence.
 */
const LOCK_TTL_MS = 8_000;
const BUDGET_MS = 6_000;
const ATTEMPTS = 20;
const RETRY_MS = 150;

// The lock and its fence in one step. The fence counter is one integer per
// tenant and never expires: it may not start again.
const ACQUIRE = `
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('incr', KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface InvoiceLedger {
  /**
   * Remembers the fence; after this, calls with a smaller fence for the tenant
   * are rejected.
   */
  lastNumber(tenantId: string, fence: number): Promise<number>;
  /** Rejects with a stale-fence error if a greater fence has been seen. */
  insert(tenantId: string, number: number, draft: InvoiceDraft, fence: number): Promise<void>;
}

export interface InvoiceDraft {
  customerId: string;
  lines: { sku: string; quantity: number; cents: number }[];
}

export class NumberingBusyError extends Error {}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

interface Hold {
  key: string;
  token: string;
  fence: number;
  validUntil: number;
}

async function release(redis: Redis, key: string, token: string): Promise<void> {
  await redis.eval(RELEASE, 1, key, token).catch((err: Error) => {
    console.warn(`numbering lock ${key} left to its TTL: ${err.message}`);
  });
}

async function acquire(redis: Redis, tenantId: string): Promise<Hold> {
  const key = `{invoice:${tenantId}}:lock`;
  const fenceKey = `{invoice:${tenantId}}:fence`;
  const token = randomUUID();

  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const sentAt = Date.now();
    let fence: number;
    try {
      fence = Number(await redis.eval(ACQUIRE, 2, key, fenceKey, token, LOCK_TTL_MS));
    } catch (err) {
      await release(redis, key, token);
      throw err;
    }
    if (fence > 0) return { key, token, fence, validUntil: sentAt + BUDGET_MS };
    await sleep(RETRY_MS + Math.floor(Math.random() * RETRY_MS));
  }
  throw new NumberingBusyError(`numbering of tenant ${tenantId} is busy`);
}

export async function issueInvoice(
  redis: Redis,
  ledger: InvoiceLedger,
  tenantId: string,
  draft: InvoiceDraft,
): Promise<number> {
  const hold = await acquire(redis, tenantId);
  try {
    const number = (await ledger.lastNumber(tenantId, hold.fence)) + 1;
    if (Date.now() >= hold.validUntil) {
      throw new NumberingBusyError(`numbering of tenant ${tenantId} took too long`);
    }
    await ledger.insert(tenantId, number, draft, hold.fence);
    return number;
  } finally {
    await release(redis, hold.key, hold.token);
  }
}
