import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";

// Independent masters, no replicas. They run with appendfsync always, so a restart forgets no lock.
const nodes = process.env.LOCK_NODES!.split(",").map((url) => {
  const node = new Redis(url, {
    commandTimeout: 150,
    connectTimeout: 1_000,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
  });
  node.on("error", (err) => console.warn(`lock node ${node.options.host}: ${err.message}`));
  return node;
});

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const quorum = Math.floor(nodes.length / 2) + 1;

async function releaseEverywhere(key: string, token: string): Promise<void> {
  // every node, also those that gave no answer: their SET may have been applied
  await Promise.allSettled(nodes.map((n) => n.eval(RELEASE, 1, key, token)));
}

async function tryAcquire(key: string, token: string, ttlMs: number): Promise<number | null> {
  const start = performance.now();
  const votes = await Promise.allSettled(nodes.map((n) => n.set(key, token, "PX", ttlMs, "NX")));
  const granted = votes.filter((v) => v.status === "fulfilled" && v.value === "OK").length;
  const drift = Math.ceil(ttlMs * 0.01) + 2;
  const validUntil = start + ttlMs - drift;
  if (granted >= quorum && validUntil - performance.now() > ttlMs / 2) return validUntil;
  await releaseEverywhere(key, token);
  return null;
}

export class NotLocked extends Error {}

export async function withQuorumLock<T>(
  resource: string,
  ttlMs: number,
  work: (signal: AbortSignal, assertHeld: () => void) => Promise<T>,
  attempts = 8,
): Promise<T> {
  const key = `quorum:${resource}`;
  for (let i = 0; i < attempts; i++) {
    const token = randomBytes(20).toString("hex"); // a new one per attempt
    const validUntil = await tryAcquire(key, token, ttlMs);
    if (validUntil === null) {
      await sleep(50 + Math.random() * 200);
      continue;
    }
    const abort = new AbortController();
    const fuse = setTimeout(
      () => abort.abort(new NotLocked(`${key} ran out`)),
      Math.max(0, validUntil - performance.now()),
    );
    const assertHeld = () => {
      // by the clock too: after a pause of the process the timer may not have run yet
      if (abort.signal.aborted || performance.now() >= validUntil) throw new NotLocked(`${key} ran out`);
    };
    try {
      return await work(abort.signal, assertHeld);
    } finally {
      clearTimeout(fuse);
      await releaseEverywhere(key, token);
    }
  }
  throw new NotLocked(`${key} is taken`);
}

export interface Warehouse {
  available(sku: string, signal: AbortSignal): Promise<number>;
  reserve(sku: string, order: string, qty: number, signal: AbortSignal): Promise<void>;
}

export function reserveStock(w: Warehouse, sku: string, order: string, qty: number): Promise<boolean> {
  return withQuorumLock(`sku:${sku}`, 8_000, async (signal, assertHeld) => {
    if ((await w.available(sku, signal)) < qty) return false;
    assertHeld();
    await w.reserve(sku, order, qty, signal);
    return true;
  });
}
