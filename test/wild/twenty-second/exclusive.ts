import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

const RELEASE_SCRIPT = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  else
    return 0
  end
`;

export interface ExclusiveOptions {
  /** Redis key suffix, shared by all instances. */
  name: string;
  /** How long the lock lives if this process dies. */
  ttlMs: number;
  /** Called instead of the handler when somebody else is already busy. */
  onBusy?: (name: string) => void;
}

type Handler<A extends unknown[], R> = (signal: AbortSignal, ...args: A) => Promise<R>;

/**
 * Wraps an async function so that at most one instance in the whole fleet runs
 * it at any time. Callers that do not get the lock resolve to `undefined`.
 *
 *   export const syncInventory = exclusive(client, { name: 'sync', ttlMs: 60_000 },
 *     async (signal, warehouse: string) => { ... });
 *
 * The handler receives an AbortSignal that fires while there is still 20% of the
 * TTL left, so it never outlives the lock.
 */
export function exclusive<A extends unknown[], R>(
  client: RedisClientType,
  { name, ttlMs, onBusy }: ExclusiveOptions,
  handler: Handler<A, R>,
): (...args: A) => Promise<R | undefined> {
  const key = `exclusive:${name}`;

  return async (...args: A): Promise<R | undefined> => {
    // Fresh token for every call: identifies this very run as the owner.
    const token = randomUUID();
    const startedAt = performance.now();

    const reply = await client.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: ttlMs },
    });
    if (reply !== 'OK') {
      onBusy?.(name);
      return undefined;
    }

    try {
      const remaining = Math.floor(startedAt + ttlMs * 0.8 - performance.now());
      if (remaining <= 0) {
        throw new Error(`The lock "${name}" arrived too late to be used`);
      }
      const signal = AbortSignal.timeout(remaining);
      return handler(signal, ...args);
    } finally {
      // Runs on success and on failure, so the lock is never left behind.
      try {
        await client.eval(RELEASE_SCRIPT, { keys: [key], arguments: [token] });
      } catch (err) {
        console.warn(`[exclusive] release of ${key} failed, waiting for its TTL`, err);
      }
    }
  };
}
