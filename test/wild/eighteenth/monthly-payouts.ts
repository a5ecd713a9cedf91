import { Redis } from "ioredis";
import Redlock from "redlock5";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379", {
  commandTimeout: 1_500,
  maxRetriesPerRequest: 1,
});
redis.on("error", (err) => console.error("[payouts] redis:", err.message));

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 3,
  retryDelay: 400,
  retryJitter: 200,
});
// also emitted for each node that says "locked", which is no news
redlock.on("error", (err: Error) => {
  if (err.name !== "ResourceLockedError") console.warn("[payouts] lock:", err.message);
});

export interface Payout {
  id: string;
  iban: string;
  cents: number;
}

export interface PayoutBook {
  /** payouts of a month that have not been marked as sent */
  open(month: string): AsyncIterable<Payout>;
  isSent(id: string): Promise<boolean>;
  markSent(id: string, bankReference: string): Promise<void>;
}

export interface Bank {
  /** not idempotent: two calls are two transfers */
  transfer(iban: string, cents: number, purpose: string): Promise<string>;
}

export interface RunSummary {
  sent: number;
  cents: number;
}

const LOCK_MS = 20_000;

/**
 * Sends all open payouts of a month. A run takes some minutes to an hour, since
 * the bank answers slowly, so redlock extends the lock for as long as we are at
 * it; a run that crashed can be started again 20 seconds later.
 */
export async function runPayouts(month: string, book: PayoutBook, bank: Bank): Promise<RunSummary> {
  if (!/^\d{4}-\d{2}$/.test(month)) throw new Error(`not a month: ${month}`);

  return redlock.using(
    [`payouts:${month}`],
    LOCK_MS,
    { automaticExtensionThreshold: 8_000 },
    async () => {
      const summary: RunSummary = { sent: 0, cents: 0 };
      for await (const payout of book.open(month)) {
        // a former run may have got this far since the list was read
        if (await book.isSent(payout.id)) continue;

        const reference = await bank.transfer(payout.iban, payout.cents, `Payout ${month} ${payout.id}`);
        await book.markSent(payout.id, reference);

        summary.sent += 1;
        summary.cents += payout.cents;
        if (summary.sent % 50 === 0) console.log(`[payouts] ${month}: ${summary.sent} sent so far`);
      }
      console.log(`[payouts] ${month}: ${summary.sent} sent, ${summary.cents / 100} EUR`);
      return summary;
    },
  );
}
