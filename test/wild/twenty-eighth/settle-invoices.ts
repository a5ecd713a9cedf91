import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import type { Redis as RedisClient } from 'ioredis';

/**
 * Settles a merchant's open invoices against the balance. Triggered by incoming bank
 * statements, by the merchant's "settle now" button and by a sweep every ten minutes, so
 * several workers may be asked to settle the same merchant at the same moment.
 */

const LOCK_TTL_MS = 120_000;
const SETTLE_BUDGET_MS = 30_000;
const MAX_INVOICES_PER_RUN = 50;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

export interface Invoice {
  id: string;
  amountCents: number;
}

/** Every call is given up after the ledger client's own timeout of five seconds. */
export interface Ledger {
  openInvoices(merchantId: string, limit: number): Promise<Invoice[]>;
  balance(merchantId: string): Promise<number>;
  postSettlement(merchantId: string, invoice: Invoice): Promise<void>;
}

export class MerchantBusyError extends Error {
  constructor(readonly merchantId: string) {
    super(`merchant ${merchantId} is already being settled`);
    this.name = 'MerchantBusyError';
  }
}

let client: RedisClient | undefined;

function redis(): RedisClient {
  if (!client) {
    client = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
    client.on('error', (err) => console.error('[settlement] redis error', err));
  }
  return client;
}

export async function withMerchantLock<T>(merchantId: string, fn: () => Promise<T>): Promise<T> {
  const key = `settlement:lock:${merchantId}`;
  const token = randomUUID();

  const reply = await redis().set(key, token, 'PX', LOCK_TTL_MS, 'NX');
  if (reply !== 'OK') {
    throw new MerchantBusyError(merchantId);
  }

  try {
    return fn();
  } finally {
    try {
      await redis().eval(UNLOCK, 1, key, token);
    } catch (err) {
      console.warn(`[settlement] could not release ${key}`, err);
    }
  }
}

export async function settleMerchant(
  ledger: Ledger,
  merchantId: string,
): Promise<{ settled: number; left: number }> {
  return withMerchantLock(merchantId, async () => {
    const stopAt = Date.now() + SETTLE_BUDGET_MS;
    const invoices = await ledger.openInvoices(merchantId, MAX_INVOICES_PER_RUN);
    let balance = await ledger.balance(merchantId);
    let settled = 0;

    for (const invoice of invoices) {
      if (Date.now() >= stopAt) {
        console.info(`[settlement] ${merchantId}: budget used up, the sweep will go on`);
        break;
      }
      if (invoice.amountCents > balance) continue;
      await ledger.postSettlement(merchantId, invoice);
      balance -= invoice.amountCents;
      settled += 1;
    }

    return { settled, left: invoices.length - settled };
  });
}

export async function onBankStatement(ledger: Ledger, merchantIds: string[]): Promise<void> {
  for (const merchantId of merchantIds) {
    try {
      const { settled, left } = await settleMerchant(ledger, merchantId);
      console.info(`[settlement] ${merchantId}: ${settled} settled, ${left} left open`);
    } catch (err) {
      if (err instanceof MerchantBusyError) continue;
      console.error(`[settlement] ${merchantId} failed`, err);
    }
  }
}
