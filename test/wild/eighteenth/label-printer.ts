import { randomUUID } from "node:crypto";
import Redis from "iovalkey";

const client = new Redis(process.env.VALKEY_URL ?? process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
client.on("error", (err: Error) => console.error("[printer]", err.message));

// Frees the lock and leaves one wake-up for whoever waits in BLPOP. Wake-ups do
// not pile up: the list holds one at most and goes away by itself.
const UNLOCK = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("del", KEYS[1], KEYS[2])
redis.call("rpush", KEYS[2], "free")
redis.call("pexpire", KEYS[2], ARGV[2])
return 1`;

export interface PrinterLock {
  key: string;
  token: string;
  /** performance.now() value up to which the printer is ours */
  validUntil: number;
}

const keyOf = (printer: string) => `printer:{${printer}}:lock`;
const wakeupOf = (printer: string) => `printer:{${printer}}:free`;

export async function lockPrinter(printer: string, ttlMs: number, waitMs: number): Promise<PrinterLock | null> {
  const key = keyOf(printer);
  const token = randomUUID();
  const giveUpAt = performance.now() + waitMs;

  const take = async (ourTurn: boolean): Promise<PrinterLock | null> => {
    const sentAt = performance.now();
    const reply = ourTurn
      ? await client.set(key, token, "PX", ttlMs)
      : await client.set(key, token, "PX", ttlMs, "NX");
    const validUntil = sentAt + ttlMs * 0.95;
    return reply === "OK" && performance.now() < validUntil ? { key, token, validUntil } : null;
  };

  const first = await take(false);
  if (first) return first;

  // BLPOP blocks its connection, so every waiter has one of its own
  const waiter = client.duplicate({ maxRetriesPerRequest: null });
  waiter.on("error", (err: Error) => console.warn("[printer] waiter:", err.message));
  try {
    for (;;) {
      const left = giveUpAt - performance.now();
      if (left <= 0) return null;
      // wakes at least every second: a holder that crashed pushes nothing
      const woken = await waiter.blpop(wakeupOf(printer), Math.min(1, Math.max(0.05, left / 1000)));
      // BLPOP gives the wake-up to exactly one waiter, it is our turn then
      const lock = await take(woken !== null);
      if (lock) return lock;
    }
  } finally {
    waiter.disconnect();
  }
}

export async function unlockPrinter(printer: string, lock: PrinterLock): Promise<void> {
  const freed = await client.eval(UNLOCK, 2, lock.key, wakeupOf(printer), lock.token, 5_000);
  if (freed !== 1) console.warn(`[printer] lock on ${printer} had already expired`);
}

/** Labels of one parcel have to come out of the printer in one go. */
export async function printLabels(
  printer: string,
  labels: Buffer[],
  send: (label: Buffer, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const lock = await lockPrinter(printer, 30_000, 60_000);
  if (!lock) throw new Error(`printer ${printer} is busy`);
  const signal = AbortSignal.timeout(Math.max(0, Math.floor(lock.validUntil - performance.now())));
  try {
    for (const label of labels) {
      if (performance.now() >= lock.validUntil) throw new Error(`lost printer ${printer}`);
      await send(label, signal);
    }
  } finally {
    await unlockPrinter(printer, lock).catch((err: Error) => console.warn("[printer] unlock:", err.message));
  }
}
