import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://localhost:6379", { commandTimeout: 2_000 });
redis.on("error", (err) => console.error("[redis]", err.message));

const TTL_MS = 20_000;
const RENEW_EVERY_MS = 5_000;
const MARGIN_MS = 4_000;

const RELEASE = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;
const EXTEND = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0`;

export class LockBusyError extends Error {}
export class LockLostError extends Error {}

export interface Lease {
  signal: AbortSignal;
  assertHeld(): void;
}

export interface BillingRepo {
  usageFor(customerId: string, period: string, opts: { signal: AbortSignal }): Promise<{ units: number; unitPrice: number; country: string }>;
  findInvoice(customerId: string, period: string, opts: { signal: AbortSignal }): Promise<{ id: string } | null>;
  /** Single INSERT; `timeoutMs` is applied as the statement timeout. */
  insertInvoice(row: { customerId: string; period: string; net: number; tax: number }, opts: { timeoutMs: number }): Promise<{ id: string }>;
}

export async function withLock<T>(key: string, fn: (lease: Lease) => Promise<T>): Promise<T> {
  const token = randomUUID();
  let validUntil = performance.now() + TTL_MS - MARGIN_MS;
  const reply = await redis.set(key, token, "PX", TTL_MS, "NX");
  if (reply !== "OK") throw new LockBusyError(`${key} is held by somebody else`);

  const lost = new AbortController();
  const giveUp = () => lost.abort(new LockLostError(`lost ${key}`));
  const armWatchdog = () => setTimeout(giveUp, Math.max(0, validUntil - performance.now()));
  let watchdog = armWatchdog();
  let renewing: Promise<void> | undefined;

  const renew = async () => {
    const sentAt = performance.now();
    try {
      const ok = await redis.eval(EXTEND, 1, key, token, TTL_MS);
      if (ok !== 1) return giveUp();
      validUntil = sentAt + TTL_MS - MARGIN_MS;
      clearTimeout(watchdog);
      watchdog = armWatchdog();
    } catch (err) {
      // The watchdog fires if no later attempt gets through in time.
      console.warn(`renewal of ${key} failed`, err);
    }
  };
  const heartbeat = setInterval(() => {
    renewing ??= renew().finally(() => {
      renewing = undefined;
    });
  }, RENEW_EVERY_MS);

  try {
    return await fn({
      signal: lost.signal,
      assertHeld() {
        lost.signal.throwIfAborted();
        if (performance.now() >= validUntil) throw new LockLostError(`lost ${key}`);
      },
    });
  } finally {
    clearInterval(heartbeat);
    await renewing;
    clearTimeout(watchdog);
    await redis.eval(RELEASE, 1, key, token).catch((err) => console.warn(`could not release ${key}`, err));
  }
}

export function invoiceCustomer(customerId: string, period: string, repo: BillingRepo): Promise<{ id: string }> {
  return withLock(`lock:invoice:${customerId}`, async ({ signal, assertHeld }) => {
    const existing = await repo.findInvoice(customerId, period, { signal });
    if (existing) return existing;

    const usage = await repo.usageFor(customerId, period, { signal });
    const res = await fetch(`${process.env.TAX_API}/rates/${usage.country}`, { signal });
    if (!res.ok) throw new Error(`tax service answered ${res.status}`);
    const { rate } = (await res.json()) as { rate: number };

    const net = Math.round(usage.units * usage.unitPrice);
    assertHeld();
    return repo.insertInvoice({ customerId, period, net, tax: Math.round(net * rate) }, { timeoutMs: 2_000 });
  });
}
