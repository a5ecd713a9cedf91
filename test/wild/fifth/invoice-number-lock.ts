import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

/**
 * Gapless invoice numbers per tenant. Accounting insists on no holes, so we read the
 * last number and insert the next one under a lock instead of using a sequence.
 */
const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 1,
  commandTimeout: 1_000,
});
redis.on('error', (err) => console.error('[invoice-lock] redis', err.message));

const TTL_MS = 15_000;
const SAFETY_MS = 1_000;
const STATEMENT_TIMEOUT_MS = 2_500;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class InvoiceLockBusy extends Error {}
export class InvoiceLeaseOver extends Error {}

export interface Lease {
  /** throws unless at least `needMs` of the lease are left */
  assert(needMs: number): void;
}

export interface Db {
  query<R>(sql: string, params: unknown[], opts: { timeoutMs: number }): Promise<R[]>;
}

async function release(key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, 1, key, token);
  } catch (err) {
    console.warn('[invoice-lock] release failed, key will expire', key, (err as Error).message);
  }
}

export async function withInvoiceLock<T>(tenantId: string, work: (lease: Lease) => Promise<T>): Promise<T> {
  const key = `invoice:number:${tenantId}`;
  const token = randomUUID();
  const askedAt = performance.now();

  let reply: string | null;
  try {
    reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
  } catch (err) {
    // no idea whether redis got it; our token is unique so cleaning up is harmless
    void release(key, token);
    throw err;
  }
  if (reply !== 'OK') throw new InvoiceLockBusy(`tenant ${tenantId} is already issuing`);

  const endsAt = askedAt + TTL_MS - SAFETY_MS;
  const lease: Lease = {
    assert(needMs) {
      if (performance.now() + needMs > endsAt) throw new InvoiceLeaseOver(key);
    },
  };

  try {
    return await work(lease);
  } finally {
    await release(key, token);
  }
}

export async function issueInvoice(db: Db, tenantId: string, draftId: string): Promise<number> {
  return withInvoiceLock(tenantId, async (lease) => {
    const opts = { timeoutMs: STATEMENT_TIMEOUT_MS };

    lease.assert(STATEMENT_TIMEOUT_MS);
    const [row] = await db.query<{ last: number | null }>(
      'select max(number) as last from invoices where tenant_id = $1',
      [tenantId],
      opts,
    );
    const next = (row?.last ?? 0) + 1;

    // the server cancels the statement after timeoutMs, so it can't land after the lease
    lease.assert(STATEMENT_TIMEOUT_MS);
    await db.query(
      'insert into invoices (tenant_id, number, draft_id) values ($1, $2, $3)',
      [tenantId, next, draftId],
      opts,
    );
    return next;
  });
}
