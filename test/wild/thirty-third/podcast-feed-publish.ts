import { randomUUID } from "node:crypto";
import { createClient } from "redis";

export const redis = createClient({ url: process.env.REDIS_URL ?? "redis://localhost:6379" });
redis.on("error", (err) => console.error("Redis error", err));

const LOCK_TTL_MS = 60_000;
const PUBLISH_LIMIT_MS = 45_000;

export interface FeedLock {
  key: string;
  token: string;
  signal: AbortSignal;
}

export interface Episode {
  guid: string;
  title: string;
  url: string;
  publishedAt: Date;
}

export interface FeedStorage {
  get(path: string, opts: { signal: AbortSignal }): Promise<string | null>;
  put(path: string, body: string, opts: { signal: AbortSignal; contentType: string }): Promise<void>;
}

export async function acquireFeedLock(showId: string): Promise<FeedLock | null> {
  const key = `podcast:${showId}:feed-lock`;
  const token = randomUUID();
  const signal = AbortSignal.timeout(PUBLISH_LIMIT_MS);
  const reply = await redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
  return reply === "OK" ? { key, token, signal } : null;
}

/** Gives the lock back, provided it is still ours. */
export async function releaseFeedLock(lock: FeedLock): Promise<boolean> {
  const current = await redis.get(lock.key);
  if (current !== lock.token) {
    console.warn(`${lock.key} expired before it was released`);
    return false;
  }
  await redis.del(lock.key);
  return true;
}

const escapeXml = (s: string) =>
  s.replace(/[<>&"]/g, (c) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;" })[c] ?? c);

function toItem(e: Episode): string {
  return [
    "<item>",
    `<guid isPermaLink="false">${escapeXml(e.guid)}</guid>`,
    `<title>${escapeXml(e.title)}</title>`,
    `<enclosure url="${escapeXml(e.url)}" type="audio/mpeg"/>`,
    `<pubDate>${e.publishedAt.toUTCString()}</pubDate>`,
    "</item>",
  ].join("");
}

export async function addEpisode(
  storage: FeedStorage,
  showId: string,
  episode: Episode,
): Promise<"published" | "already-there" | "busy"> {
  const lock = await acquireFeedLock(showId);
  if (!lock) return "busy";

  const { signal } = lock;
  const path = `feeds/${showId}.xml`;
  try {
    const feed = await storage.get(path, { signal });
    if (feed === null) throw new Error(`no feed for show ${showId}`);
    if (feed.includes(`>${escapeXml(episode.guid)}</guid>`)) return "already-there";

    const updated = feed.replace("</channel>", () => `${toItem(episode)}</channel>`);
    signal.throwIfAborted();
    await storage.put(path, updated, { signal, contentType: "application/rss+xml" });
    return "published";
  } finally {
    await releaseFeedLock(lock).catch((err) => {
      console.warn(`feed lock of ${showId} not released, it will expire`, err);
    });
  }
}
