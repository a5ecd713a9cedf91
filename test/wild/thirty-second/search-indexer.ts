import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";

type RedisClient = ReturnType<typeof createClient>;

const LEADER_KEY = "search-indexer:leader";
const LEASE_MS = 15_000;
const MARGIN_MS = 4_000;

const RESIGN = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;

export interface ChangeFeed {
  readAfterCursor(limit: number): Promise<{ docs: object[]; cursor: string }>;
  /** Statement timeout of two seconds. */
  saveCursor(cursor: string): Promise<void>;
}

export class IndexerLeader {
  private readonly id = `${hostname()}:${process.pid}:${randomUUID()}`;
  private leading = false;
  private leaseUntil = 0;
  private timer: NodeJS.Timeout | undefined;
  private beating: Promise<void> | undefined;

  constructor(private readonly redis: RedisClient) {}

  /** Milliseconds during which this process may act as the leader. */
  remaining(): number {
    return this.leading ? Math.max(0, Math.floor(this.leaseUntil - performance.now())) : 0;
  }

  start(): void {
    this.timer = setInterval(() => this.tick(), LEASE_MS / 5);
    this.tick();
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.beating;
    this.leading = false;
    await this.redis
      .eval(RESIGN, { keys: [LEADER_KEY], arguments: [this.id] })
      .catch((err: unknown) => console.warn("resign failed", err));
  }

  private tick(): void {
    this.beating ??= this.beat().finally(() => {
      this.beating = undefined;
    });
  }

  private async beat(): Promise<void> {
    const sentAt = performance.now();
    try {
      const reply = this.leading
        ? await this.redis.set(LEADER_KEY, this.id, { XX: true, PX: LEASE_MS })
        : await this.redis.set(LEADER_KEY, this.id, { NX: true, PX: LEASE_MS });
      this.leading = reply === "OK";
      if (this.leading) this.leaseUntil = sentAt + LEASE_MS - MARGIN_MS;
    } catch (err) {
      // leaseUntil is left as it is, so leadership runs out by itself.
      console.warn("heartbeat failed", err);
    }
  }
}

export async function runIndexer(leader: IndexerLeader, feed: ChangeFeed, stop: AbortSignal): Promise<void> {
  leader.start();
  try {
    while (!stop.aborted) {
      try {
        if (leader.remaining() > 0) await indexBatch(leader, feed);
      } catch (err) {
        console.error("batch failed", err);
      }
      await sleep(500);
    }
  } finally {
    await leader.stop();
  }
}

async function indexBatch(leader: IndexerLeader, feed: ChangeFeed): Promise<void> {
  const { docs, cursor } = await feed.readAfterCursor(200);
  if (docs.length === 0) return;
  const res = await fetch(`${process.env.SEARCH_URL}/_bulk`, {
    method: "POST",
    headers: { "content-type": "application/x-ndjson" },
    body: docs.map((d) => JSON.stringify(d)).join("\n") + "\n",
    signal: AbortSignal.timeout(leader.remaining()),
  });
  if (!res.ok) throw new Error(`search answered ${res.status}`);
  if (leader.remaining() === 0) throw new Error("no longer the leader");
  await feed.saveCursor(cursor);
}
