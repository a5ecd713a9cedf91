import { randomUUID } from "node:crypto";
import Redis from "ioredis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");

const TTL = 8_000;

const RELEASE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

export class ExportInProgress extends Error {}

/** The lock lives as long as the export: a watchdog pushes the expiry ahead every TTL/2. */
export async function withExportLock<T>(exportId: string, run: () => Promise<T>): Promise<T> {
  const key = `export:${exportId}`;
  const token = randomUUID();

  if ((await redis.set(key, token, "PX", TTL, "NX")) !== "OK") {
    throw new ExportInProgress(exportId);
  }

  const watchdog = setInterval(async () => {
    try {
      const alive = await redis.pexpire(key, TTL);
      if (alive === 0) clearInterval(watchdog);
    } catch (err) {
      console.error("could not renew", key, err);
    }
  }, TTL / 2);

  try {
    return await run();
  } finally {
    clearInterval(watchdog);
    await redis.eval(RELEASE, 1, key, token);
  }
}
