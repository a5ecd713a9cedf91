import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class AlreadyRunning extends Error {}

export async function lockClient(): Promise<Client> {
  const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
  client.on("error", (err) => console.error("redis:", err));
  await client.connect();
  return client;
}

interface Options<A extends unknown[]> {
  key: (...args: A) => string;
  ttlMs: number;
}

/**
 * Wraps an async function so that it runs once at a time per key over all instances.
 * The wrapped function gets a signal that fires when the lock is about to expire.
 *
 *   const syncCustomer = exclusive(client, { key: (id) => `sync:${id}`, ttlMs: 60_000 },
 *     async (signal, id: string) => { ... });
 */
export function exclusive<A extends unknown[], R>(
  client: Client,
  { key, ttlMs }: Options<A>,
  fn: (signal: AbortSignal, ...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  return async (...args: A): Promise<R> => {
    const name = `exclusive:${key(...args)}`;
    const token = randomUUID();
    const release = async () => {
      await client
        .eval(RELEASE, { keys: [name], arguments: [token] })
        .catch((err) => console.warn(`release ${name}:`, err));
    };

    const sentAt = performance.now();
    let reply: unknown;
    try {
      reply = await client.set(name, token, { NX: true, PX: ttlMs });
    } catch (err) {
      await release();
      throw err;
    }
    if (reply !== "OK") throw new AlreadyRunning(name);

    try {
      const left = Math.floor(sentAt + ttlMs - 200 - performance.now());
      if (left <= 0) throw new Error(`${name}: lock came too late`);
      return fn(AbortSignal.timeout(left), ...args);
    } finally {
      await release();
    }
  };
}
