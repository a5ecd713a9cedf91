import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { createClient } from 'redis';

type Node = ReturnType<typeof createClient>;

export interface WithLockOptions {
  /**
   * Independent, connected primaries; three or five of them. They must not
   * forget keys in a crash: appendfsync always, or a restart delayed by ttlMs.
   */
  nodes: Node[];
  resource: string;
  ttlMs?: number;
  retries?: number;
  baseDelayMs?: number;
  maxDelayMs?: number;
  nodeTimeoutMs?: number;
}

export class LockUnavailableError extends Error {}
export class LockLostError extends Error {}

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Runs `fn` under a lock granted by more than half of all nodes, trying again
 * with exponential backoff and full jitter. The lock is extended for as long as
 * `fn` runs. When that fails the signal aborts; `fn` has to stop at once then,
 * and the call rejects with LockLostError whatever `fn` returns.
 */
export async function withLock<T>(
  options: WithLockOptions,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { nodes, resource } = options;
  const { ttlMs = 12_000, retries = 8, nodeTimeoutMs = 400 } = options;
  const { baseDelayMs = 100, maxDelayMs = 3_000 } = options;
  const key = `lock:${resource}`;
  const quorum = Math.floor(nodes.length / 2) + 1;

  const askAll = (ask: (node: Node) => Promise<unknown>) =>
    Promise.allSettled(nodes.map((node) => within(nodeTimeoutMs, ask(node))));

  /** The time until which a quorum has said yes, or null. Counted from before asking. */
  const vote = async (ask: (node: Node) => Promise<unknown>, yes: unknown) => {
    const sentAt = performance.now();
    const replies = await askAll(ask);
    const count = replies.filter((r) => r.status === 'fulfilled' && r.value === yes).length;
    const validUntil = sentAt + ttlMs * 0.85;
    return count >= quorum && performance.now() < validUntil ? validUntil : null;
  };

  const release = (token: string) =>
    askAll((node) => node.eval(RELEASE, { keys: [key], arguments: [token] }));

  for (let attempt = 0; ; attempt++) {
    const token = randomUUID();
    const granted = await vote((node) => node.set(key, token, { NX: true, PX: ttlMs }), 'OK');
    if (granted !== null) {
      const extend = () =>
        vote((node) => node.eval(EXTEND, { keys: [key], arguments: [token, String(ttlMs)] }), 1);
      try {
        return await hold(resource, granted, ttlMs / 4, extend, fn);
      } finally {
        await release(token);
      }
    }
    // Some nodes may have said yes, even ones whose answer never reached us.
    await release(token);
    if (attempt >= retries) throw new LockUnavailableError(resource);
    await sleep(Math.random() * Math.min(maxDelayMs, baseDelayMs * 2 ** attempt));
  }
}

async function hold<T>(
  resource: string,
  validUntil: number,
  everyMs: number,
  extend: () => Promise<number | null>,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const lost = new AbortController();
  const finished = new AbortController();
  const lose = () => lost.abort(new LockLostError(resource));
  const guardUntil = (time: number) => setTimeout(lose, Math.max(0, time - performance.now()));
  let guard = guardUntil(validUntil);

  const heartbeat = (async () => {
    while (!lost.signal.aborted) {
      await sleep(everyMs, undefined, { signal: finished.signal }).catch(() => {});
      if (finished.signal.aborted) return;
      const next = await extend();
      if (finished.signal.aborted) return;
      if (next === null) return lose();
      clearTimeout(guard);
      guard = guardUntil(next);
    }
  })();

  try {
    const result = await fn(lost.signal);
    lost.signal.throwIfAborted();
    return result;
  } finally {
    finished.abort();
    clearTimeout(guard);
    await heartbeat;
  }
}

async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error('no answer in time')), ms);
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
