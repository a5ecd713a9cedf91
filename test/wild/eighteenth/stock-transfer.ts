import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379", {
  commandTimeout: 1_000,
  maxRetriesPerRequest: 2,
});
redis.on("error", (err) => console.error("[lock] redis:", err.message));

// ioredis sends a command again after a reconnect, so the key may already carry
// our own token when the script runs. Then it is ours, with a full TTL from now.
const ACQUIRE = `
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
  return 1
end
if redis.call("get", KEYS[1]) == ARGV[1] then
  redis.call("pexpire", KEYS[1], ARGV[2])
  return 1
end
return 0`;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class LockBusyError extends Error {}
export class LockLostError extends Error {}

export interface Lease {
  /** fires a little before the TTL runs out; the work has to stop then */
  signal: AbortSignal;
  /** looks at the clock itself, for right before a side effect */
  assertHeld(): void;
}

/** Runs `fn` while holding `key`; rejects with LockLostError if `fn` outlived the lease. */
export async function withLock<T>(
  key: string,
  ttlMs: number,
  fn: (lease: Lease) => Promise<T>,
  waitMs = 5_000,
): Promise<T> {
  const token = randomUUID();
  const margin = Math.max(50, ttlMs * 0.05);
  const giveUpAt = performance.now() + waitMs;
  const lost = new AbortController();
  let timer: NodeJS.Timeout | undefined;

  try {
    let deadline: number;
    for (;;) {
      const sentAt = performance.now();
      const granted = await redis.eval(ACQUIRE, 1, key, token, ttlMs);
      deadline = sentAt + ttlMs - margin;
      // an answer that took longer than the lock lives is worth nothing
      if (granted === 1 && performance.now() < deadline) break;
      if (performance.now() >= giveUpAt) throw new LockBusyError(`${key} is busy`);
      await sleep(40 + Math.random() * 160);
    }

    const expire = () => lost.abort(new LockLostError(`lease on ${key} ran out`));
    const assertHeld = () => {
      if (performance.now() >= deadline) expire();
      lost.signal.throwIfAborted();
    };
    timer = setTimeout(expire, deadline - performance.now());
    const result = await fn({ signal: lost.signal, assertHeld });
    assertHeld();
    return result;
  } finally {
    clearTimeout(timer);
    // Compares the token, so this does nothing when we never got the lock, and
    // cleans up when only the answer to our request went missing.
    await redis.eval(RELEASE, 1, key, token).catch((err: Error) => {
      console.warn(`[lock] ${key} left to its TTL: ${err.message}`);
    });
  }
}

export interface Warehouse {
  available(sku: string, site: string, signal: AbortSignal): Promise<number>;
  move(sku: string, from: string, to: string, qty: number, signal: AbortSignal): Promise<void>;
}

export function transferStock(wms: Warehouse, sku: string, from: string, to: string, qty: number) {
  return withLock(`lock:stock:${sku}`, 15_000, async (lease) => {
    const onHand = await wms.available(sku, from, lease.signal);
    if (onHand < qty) throw new Error(`only ${onHand} of ${sku} at ${from}`);
    lease.assertHeld();
    await wms.move(sku, from, to, qty, lease.signal);
  });
}
