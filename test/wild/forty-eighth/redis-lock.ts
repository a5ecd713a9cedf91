import { randomUUID } from "node:crypto";
import { rename, rm, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

const COMPARE_AND_DELETE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

function within<T>(promise: Promise<T>, ms = 1_000): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no reply from Redis in ${ms} ms`)), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

export interface LockOptions {
  /** how long Redis keeps the key, in ms */
  ttlMs: number;
  /** how long acquire() may wait, in ms */
  waitMs?: number;
}

/**
 * Explicit resource management flavoured lock (TS 5.2+):
 *
 *   await using lock = await RedisLock.acquire(client, "sitemap", { ttlMs: 30_000 });
 *   await work(lock.signal);
 */
export class RedisLock implements AsyncDisposable {
  private constructor(
    private readonly client: Client,
    private readonly key: string,
    private readonly token: string,
    readonly signal: AbortSignal,
  ) {}

  static async acquire(client: Client, name: string, { ttlMs, waitMs = 2_000 }: LockOptions): Promise<RedisLock> {
    const key = `lock:${name}`;
    const giveUpAt = performance.now() + waitMs;

    for (;;) {
      const token = randomUUID();
      const sentAt = performance.now();
      let reply: string | null;
      try {
        reply = await within(client.set(key, token, { NX: true, PX: ttlMs }));
      } catch (err) {
        // the SET may have arrived even though the answer did not
        await within(client.eval(COMPARE_AND_DELETE, { keys: [key], arguments: [token] })).catch(() => {});
        throw err;
      }
      if (reply === "OK") {
        const left = Math.floor(ttlMs * 0.8 - (performance.now() - sentAt));
        const lock = new RedisLock(client, key, token, left > 0 ? AbortSignal.timeout(left) : AbortSignal.abort());
        if (left > 0) return lock;
        await lock[Symbol.asyncDispose]();
      }
      if (performance.now() >= giveUpAt) throw new Error(`lock "${name}" not acquired within ${waitMs} ms`);
      await sleep(50 + Math.random() * 100);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await within(this.client.eval(COMPARE_AND_DELETE, { keys: [this.key], arguments: [this.token] }));
    } catch (err) {
      console.warn(`release of ${this.key} failed, it will expire`, err);
    }
  }
}

// --- usage -------------------------------------------------------------

const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
client.on("error", (err) => console.error("redis", err));

await client.connect();

// called every ten minutes on each host that shares the NFS mount
export async function buildSitemap(target: string): Promise<void> {
  await using lock = await RedisLock.acquire(client, "sitemap", { ttlMs: 60_000 });
  const { signal } = lock;

  const res = await fetch(`${process.env.API_URL}/public-urls`, { signal });
  if (!res.ok) throw new Error(`public-urls: ${res.status}`);
  const urls: string[] = await res.json();

  const xml =
    `<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n` +
    urls.map((u) => `  <url><loc>${u.replace(/&/g, "&amp;")}</loc></url>`).join("\n") +
    `\n</urlset>\n`;

  const tmp = `${target}.${randomUUID()}.tmp`;
  try {
    await writeFile(tmp, xml, { signal });
    signal.throwIfAborted();
    await rename(tmp, target);
  } finally {
    await rm(tmp, { force: true });
  }
}
