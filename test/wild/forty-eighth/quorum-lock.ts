import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import { Pool } from "pg";

// Five standalone Redis processes in five zones, no replication, appendfsync always.
const nodes = process.env.LOCK_NODES!.split(",").map(
  (url) =>
    new Redis(url, {
      commandTimeout: 80,
      connectTimeout: 1000,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
    }),
);
nodes.forEach((n, i) => n.on("error", (err) => console.warn(`lock node ${i}: ${err.message}`)));

const QUORUM = Math.floor(nodes.length / 2) + 1;

const UNLOCK = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`;

export class NotAcquired extends Error {
  constructor(resource: string) {
    super(`no quorum for ${resource}`);
  }
}

async function unlockAll(resource: string, token: string): Promise<void> {
  await Promise.allSettled(nodes.map((n) => n.eval(UNLOCK, 1, resource, token)));
}

async function lockOnce(resource: string, token: string, ttl: number): Promise<number> {
  const started = performance.now();
  const replies = await Promise.allSettled(nodes.map((n) => n.set(resource, token, "PX", ttl, "NX")));
  const votes = replies.filter((r) => r.status === "fulfilled" && r.value === "OK").length;
  const drift = ttl * 0.01 + 2;
  const validity = Math.floor(ttl - (performance.now() - started) - drift);
  return votes >= QUORUM ? validity : 0;
}

export async function withQuorumLock<T>(
  name: string,
  ttl: number,
  fn: (signal: AbortSignal) => Promise<T>,
  { attempts = 6, minValidity = ttl / 2 } = {},
): Promise<T> {
  const resource = `lock:${name}`;

  for (let i = 0; i < attempts; i++) {
    const token = randomBytes(20).toString("hex");
    const validity = await lockOnce(resource, token, ttl);
    if (validity >= minValidity) {
      try {
        return await fn(AbortSignal.timeout(validity));
      } finally {
        await unlockAll(resource, token);
      }
    }
    await unlockAll(resource, token);
    await sleep(50 + Math.random() * 200);
  }
  throw new NotAcquired(resource);
}

const pool = new Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 3000 });

// The partner bans us when two pollers hit the feed at once, hence the lock.
export function pollFeed(partner: string, url: string): Promise<number> {
  return withQuorumLock(`feed:${partner}`, 15_000, async (signal) => {
    const res = await fetch(url, { signal });
    if (!res.ok) throw new Error(`feed ${partner}: HTTP ${res.status}`);
    const items: { id: string; updatedAt: string; body: unknown }[] = await res.json();

    for (const item of items) {
      signal.throwIfAborted();
      await pool.query(
        `INSERT INTO feed_items (partner, id, updated_at, body) VALUES ($1, $2, $3, $4)
         ON CONFLICT (partner, id) DO UPDATE SET updated_at = EXCLUDED.updated_at, body = EXCLUDED.body
         WHERE feed_items.updated_at < EXCLUDED.updated_at`,
        [partner, item.id, item.updatedAt, JSON.stringify(item.body)],
      );
    }
    return items.length;
  });
}
