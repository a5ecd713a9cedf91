import { hostname } from "node:os";
import type { Redis } from "ioredis";

// shows up in `redis-cli get lock:...`, so support can see which pod is busy
const OWNER = `${hostname()}#${process.pid}@${Date.now().toString(36)}`;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export interface ExclusiveOptions<A extends unknown[]> {
  redis: Redis;
  /** what has to be exclusive, e.g. (accountId) => `statement:${accountId}` */
  key: (...args: A) => string;
  ttlMs: number;
}

export type Outcome<R> = { ran: true; value: R } | { ran: false };

/**
 * Wraps `fn` so that for each key only one call runs at a time, over all pods
 * and all requests. A call that finds the key taken returns { ran: false }.
 *
 * `fn` gets an AbortSignal as its first argument that fires shortly before the
 * lock expires; from then on it must not start anything new.
 */
export function exclusive<A extends unknown[], R>(
  options: ExclusiveOptions<A>,
  fn: (signal: AbortSignal, ...args: A) => Promise<R>,
): (...args: A) => Promise<Outcome<R>> {
  const { redis, ttlMs } = options;

  return async (...args: A): Promise<Outcome<R>> => {
    const key = `lock:${options.key(...args)}`;
    const sentAt = performance.now();
    const reply = await redis.set(key, OWNER, "PX", ttlMs, "NX");
    if (reply !== "OK") return { ran: false };

    const expiring = new AbortController();
    const usableUntil = sentAt + ttlMs * 0.9;
    const timer = setTimeout(
      () => expiring.abort(new Error(`${key} is about to expire`)),
      Math.max(0, usableUntil - performance.now()),
    );
    try {
      if (performance.now() >= usableUntil) throw new Error(`${key}: redis answered too late`);
      const value = await fn(expiring.signal, ...args);
      return { ran: true, value };
    } finally {
      clearTimeout(timer);
      try {
        const released = await redis.eval(RELEASE, 1, key, OWNER);
        if (released !== 1) console.warn(`${key} had expired before we were done`);
      } catch (err) {
        console.warn(`${key} could not be released, it will expire`, err);
      }
    }
  };
}

export interface StatementStore {
  lines(accountId: string, month: string, signal: AbortSignal): Promise<string[]>;
  put(name: string, body: string, signal: AbortSignal): Promise<void>;
}

export function statementBuilder(redis: Redis, store: StatementStore) {
  return exclusive(
    { redis, ttlMs: 60_000, key: (accountId: string, month: string) => `statement:${accountId}:${month}` },
    async (signal, accountId: string, month: string) => {
      const lines = await store.lines(accountId, month, signal);
      signal.throwIfAborted();
      await store.put(`${accountId}/${month}.txt`, lines.join("\n"), signal);
      return lines.length;
    },
  );
}
