import { randomUUID } from "node:crypto";
import Redis from "ioredis";
import { loadProductBatch, putDocuments } from "./search";

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2000, maxRetriesPerRequest: 1 });
redis.on("error", (err) => console.error("[redis]", err.message));

const RELEASE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`;
const RENEW = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`;

export async function withLock<T>(name: string, ttl: number, fn: (signal: AbortSignal) => Promise<T>): Promise<T | null> {
  const key = `lock:${name}`;
  const token = randomUUID();
  const ac = new AbortController();
  let done = false;
  let deadline: NodeJS.Timeout | undefined;

  const lost = () => ac.abort(new Error(`lock ${name} lost`));
  const arm = (sentAt: number) => {
    clearTimeout(deadline);
    if (!done) deadline = setTimeout(lost, Math.max(0, ttl * 0.8 - (performance.now() - sentAt)));
  };

  const sentAt = performance.now();
  if ((await redis.set(key, token, "PX", ttl, "NX")) !== "OK") return null;
  arm(sentAt);

  const renewer = setInterval(async () => {
    const at = performance.now();
    try {
      if ((await redis.eval(RENEW, 1, key, token, ttl)) === 1) arm(at);
      else lost();
    } catch (err) {
      console.warn(`renew ${name}:`, (err as Error).message); // next tick retries until the deadline
    }
  }, ttl / 4);

  try {
    const result = await fn(ac.signal);
    ac.signal.throwIfAborted();
    return result;
  } finally {
    done = true;
    clearInterval(renewer);
    clearTimeout(deadline);
    await redis.eval(RELEASE, 1, key, token).catch((err) => console.warn(`release ${name}:`, err.message));
  }
}

// documents carry the row's version; the search engine drops anything older (version_type=external)
export const reindex = () =>
  withLock("reindex", 20_000, async (signal) => {
    for (let after = 0; ; ) {
      signal.throwIfAborted();
      const rows = await loadProductBatch(after, 500, { signal });
      if (rows.length === 0) return;
      await putDocuments(rows, { signal, versionType: "external" });
      after = rows[rows.length - 1].id;
    }
  });
