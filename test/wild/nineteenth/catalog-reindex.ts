import Redis from "ioredis";
import Redlock, { ExecutionError } from "redlock5";

const clients = process.env.REDLOCK_URLS!.split(",").map((url) => {
  const client = new Redis(url, {
    commandTimeout: 400,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
  });
  client.on("error", (err) => console.warn("redis:", err.message));
  return client;
});

// Few and short retries: an attempt to extend is over well within the threshold below.
const redlock = new Redlock(clients, {
  driftFactor: 0.01,
  retryCount: 2,
  retryDelay: 100,
  retryJitter: 50,
  automaticExtensionThreshold: 5_000,
});
redlock.on("error", (err) => console.debug("redlock:", err.message));

export interface Catalog {
  version(): Promise<string>;
  batches(size: number): AsyncIterable<Array<{ sku: string; title: string }>>;
}

export interface SearchIndex {
  create(name: string): Promise<void>;
  add(name: string, docs: Array<{ sku: string; title: string }>): Promise<void>;
  /** Points the public alias at this index and drops the former one. */
  publish(name: string): Promise<void>;
}

/**
 * Cron, every ten minutes on each worker. One of them rebuilds the index, which takes
 * from one minute to about a quarter of an hour; the lock is extended all the while.
 */
export async function reindexCatalog(catalog: Catalog, index: SearchIndex): Promise<"built" | "skipped"> {
  let started = false;
  try {
    return await redlock.using(["catalog:reindex"], 20_000, async (signal) => {
      started = true;
      const name = `catalog-${await catalog.version()}`;
      await index.create(name);
      if (signal.aborted) throw signal.error ?? new Error("lock was lost");

      let count = 0;
      for await (const docs of catalog.batches(500)) {
        await index.add(name, docs);
        count += docs.length;
      }
      await index.publish(name);
      console.info(`${name}: ${count} documents`);
      return "built" as const;
    });
  } catch (err) {
    if (!started && err instanceof ExecutionError) return "skipped";
    throw err;
  }
}
