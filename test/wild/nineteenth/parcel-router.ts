import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";

export const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000, maxRetriesPerRequest: 2 });
redis.on("error", (err) => console.error("redis", err.message));

// Running this twice with the same token is harmless: the second run only sets the TTL anew.
const ACQUIRE = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;
const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class LockLostError extends Error {}
export class LockBusyError extends Error {}
const SAFETY_MS = 100;

async function acquire(client: Redis, key: string, token: string, ttlMs: number, waitMs: number): Promise<number> {
  const giveUpAt = performance.now() + waitMs;
  let lastError: unknown;
  do {
    const sentAt = performance.now();
    try {
      const got = await client.eval(ACQUIRE, 1, key, token, ttlMs);
      const deadline = sentAt + ttlMs - SAFETY_MS;
      if (got === 1 && performance.now() < deadline) return deadline;
    } catch (err) {
      lastError = err; // may have been applied all the same; the next round or the release below settles it
    }
    await sleep(50 + Math.random() * 150);
  } while (performance.now() < giveUpAt);
  await client.eval(RELEASE, 1, key, token).catch(() => {});
  throw new LockBusyError(`could not lock ${key}`, { cause: lastError });
}

export interface Lease {
  signal: AbortSignal;
  assertHeld(): void;
}

export async function withLock<T>(
  client: Redis, name: string, ttlMs: number, work: (lease: Lease) => Promise<T>, waitMs = 10_000,
): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();
  let deadline = await acquire(client, key, token, ttlMs, waitMs);
  let finished = false;
  const abort = new AbortController();
  const lose = () => abort.abort(new LockLostError(`lost ${key}`));
  let fuse = setTimeout(lose, deadline - performance.now());

  const renew = async () => {
    if (abort.signal.aborted) return; // told to stop: let the lock run out
    const sentAt = performance.now();
    try {
      const ok = await client.eval(EXTEND, 1, key, token, ttlMs);
      if (finished || abort.signal.aborted) return;
      if (ok !== 1) return lose();
      deadline = sentAt + ttlMs - SAFETY_MS;
      clearTimeout(fuse);
      fuse = setTimeout(lose, Math.max(0, deadline - performance.now()));
    } catch {
      // next beat tries again; the fuse ends the work if none gets through
    }
  };
  const beat = setInterval(renew, ttlMs / 3);
  const assertHeld = () => {
    if (!abort.signal.aborted && performance.now() >= deadline) lose();
    abort.signal.throwIfAborted();
  };

  try {
    const result = await work({ signal: abort.signal, assertHeld });
    assertHeld();
    return result;
  } finally {
    finished = true;
    clearInterval(beat);
    clearTimeout(fuse);
    await client.eval(RELEASE, 1, key, token).catch((err) => console.warn(`release of ${key}: ${err.message}`));
  }
}
