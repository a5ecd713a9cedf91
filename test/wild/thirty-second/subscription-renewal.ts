import { Redis } from "ioredis";
import Redlock from "redlock5";

const redlock = new Redlock([new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379")], {
  retryCount: 3,
  retryDelay: 250,
  retryJitter: 100,
  automaticExtensionThreshold: 3_000,
});

redlock.on("error", (err: Error) => console.warn("[redlock]", err.message));

export interface Subscription {
  id: string;
  customerId: string;
  priceCents: number;
  paidUntil: string;
  version: number;
}

export interface SubscriptionStore {
  load(id: string): Promise<Subscription>;
  /** `UPDATE ... WHERE id = ? AND version = ?`, also increments the version; false if no row matched. */
  setPaidUntil(id: string, paidUntil: string, ifVersion: number): Promise<boolean>;
  dueBefore(day: string): Promise<string[]>;
}

export interface Payments {
  /** Repeating a charge with the same key returns the first one. */
  charge(customerId: string, cents: number, idempotencyKey: string): Promise<{ id: string }>;
}

function nextMonth(day: string): string {
  const [year = 0, month = 0, date = 0] = day.split("-").map(Number);
  const lastOfNext = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return new Date(Date.UTC(year, month, Math.min(date, lastOfNext))).toISOString().slice(0, 10);
}

export async function renewSubscription(
  id: string,
  today: string,
  store: SubscriptionStore,
  payments: Payments,
): Promise<"renewed" | "current"> {
  return redlock.using([`lock:subscription:${id}`], 10_000, async (signal) => {
    const sub = await store.load(id);
    if (sub.paidUntil > today) return "current";
    if (signal.aborted) throw signal.error ?? new Error(`lost the lock on ${id}`);

    await payments.charge(sub.customerId, sub.priceCents, `renewal:${id}:${sub.paidUntil}`);

    const saved = await store.setPaidUntil(id, nextMonth(sub.paidUntil), sub.version);
    if (!saved) throw new Error(`subscription ${id} changed during its renewal`);
    return "renewed";
  });
}

export async function renewDue(today: string, store: SubscriptionStore, payments: Payments): Promise<number> {
  let renewed = 0;
  for (const id of await store.dueBefore(today)) {
    try {
      if ((await renewSubscription(id, today, store, payments)) === "renewed") renewed++;
    } catch (err) {
      console.error(`subscription ${id} stays due for the next sweep`, err);
    }
  }
  return renewed;
}
