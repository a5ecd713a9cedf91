import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

const LOCK_MS = 60_000;
const BUDGET_MS = 45_000;

export class SettlementBusyError extends Error {
  constructor(merchant: string) {
    super(`settlement of ${merchant} is running elsewhere`);
  }
}

async function withLock<T>(key: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  for (let attempt = 0; attempt < 5; attempt++) {
    const token = randomUUID();
    const signal = AbortSignal.timeout(BUDGET_MS);
    let acquired = false;
    try {
      acquired = (await redis.set(key, token, { nx: true, px: LOCK_MS })) === 'OK';
      if (acquired) return await fn(signal);
    } catch (err) {
      // includes a lost reply to SET; the release below is harmless if we never had it
      acquired = true;
      throw err;
    } finally {
      if (acquired) {
        await redis.eval(RELEASE, [key], [token]).catch((err: unknown) => {
          console.warn('settlement lock will expire by itself', key, err);
        });
      }
    }
    await sleep(500 + Math.random() * 1_000);
  }
  throw new SettlementBusyError(key);
}

export interface Charge {
  id: string;
  amount: number;
  settled: boolean;
}

export interface ChargeStore {
  openCharges(merchant: string): Promise<Charge[]>;
  /** Retries until it is stored. */
  markSettled(chargeId: string): Promise<void>;
}

export interface Bank {
  /** Rejects only if nothing has been paid. */
  transfer(merchant: string, amount: number, signal: AbortSignal): Promise<void>;
}

interface SettlementSummary {
  merchant: string;
  charges: number;
  failed: string[];
}

/**
 * Pays out all open charges of a merchant. Called from the nightly cron and from
 * the "settle now" button, which must not pay the same charge at the same time.
 */
export async function settleMerchant(
  merchant: string,
  store: ChargeStore,
  bank: Bank,
): Promise<SettlementSummary> {
  return withLock(`settlement:${merchant}`, async (signal) => {
    const summary: SettlementSummary = { merchant, charges: 0, failed: [] };
    const charges = await store.openCharges(merchant);

    charges.forEach(async (charge) => {
      if (charge.settled) return;
      try {
        signal.throwIfAborted();
        await bank.transfer(merchant, charge.amount, signal);
        await store.markSettled(charge.id);
      } catch (err) {
        console.error('charge not settled', charge.id, err);
        summary.failed.push(charge.id);
      }
    });

    summary.charges = charges.length;
    return summary;
  });
}

export async function settleAll(merchants: string[], store: ChargeStore, bank: Bank): Promise<void> {
  for (const merchant of merchants) {
    try {
      const { charges, failed } = await settleMerchant(merchant, store, bank);
      console.info(`${merchant}: ${charges} charges, ${failed.length} failed`);
    } catch (err) {
      if (!(err instanceof SettlementBusyError)) throw err;
      console.info(err.message);
    }
  }
}
