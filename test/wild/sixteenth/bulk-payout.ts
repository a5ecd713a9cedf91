import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

/** Pays out the open balances of one marketplace batch. */
const TTL_MS = 60_000;
const BUDGET_MS = 45_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface Payout {
  id: string;
  sellerId: string;
  cents: number;
}
export interface PayoutStore {
  open(batchId: string, opts: { signal: AbortSignal }): Promise<Payout[]>;
  markPaid(payoutId: string, transferId: string, opts: { signal: AbortSignal }): Promise<void>;
}
export interface Bank {
  transfer(payout: Payout, opts: { signal: AbortSignal }): Promise<{ transferId: string }>;
}

export class BatchBusyError extends Error {}

export function connect(): Redis {
  const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
  redis.on('error', (err) => console.error('redis', err.message));
  return redis;
}

export async function withLock<T>(
  redis: Redis,
  key: string,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const token = randomUUID();
  const startedAt = Date.now();
  const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
  if (reply !== 'OK') throw new BatchBusyError(`${key} is taken`);

  try {
    const left = startedAt + BUDGET_MS - Date.now();
    if (left <= 0) throw new BatchBusyError(`${key} was granted too late`);
    return await fn(AbortSignal.timeout(left));
  } finally {
    await redis.eval(RELEASE, 1, key, token).catch((err: Error) => {
      console.warn(`${key} left to its TTL: ${err.message}`);
    });
  }
}

async function payOne(store: PayoutStore, bank: Bank, payout: Payout, signal: AbortSignal) {
  signal.throwIfAborted();
  const { transferId } = await bank.transfer(payout, { signal });
  await store.markPaid(payout.id, transferId, { signal });
  return transferId;
}

/**
 * Resolves to the transfers made. If a transfer fails, the batch can be run
 * again: payouts already marked as paid are not open any more.
 */
export async function payBatch(
  redis: Redis,
  store: PayoutStore,
  bank: Bank,
  batchId: string,
): Promise<string[]> {
  return withLock(redis, `lock:payout-batch:${batchId}`, async (signal) => {
    const payouts = await store.open(batchId, { signal });
    return Promise.all(payouts.map((payout) => payOne(store, bank, payout, signal)));
  });
}
