import { randomUUID } from "node:crypto";
import { createClient } from "redis";

type RedisClient = ReturnType<typeof createClient>;

export interface Db {
  query<R>(sql: string, params: unknown[]): Promise<{ rows: R[]; rowCount: number }>;
}

export class StaleFenceError extends Error {}

const TTL_MS = 15_000;

// KEYS[2] is only ever incremented and has no expiry.
const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class StockSync {
  readonly #redis: RedisClient;
  readonly #db: Db;
  readonly #wmsUrl: string;

  constructor(redis: RedisClient, db: Db, wmsUrl: string) {
    this.#redis = redis;
    this.#db = db;
    this.#wmsUrl = wmsUrl;
  }

  /**
   * Takes the physical count from the WMS and books the difference. Nothing else
   * writes to `stock`; orders are kept in `reservations`.
   */
  async sync(sku: string): Promise<"synced" | "busy"> {
    const owner = randomUUID();
    const keys = [`stock:{${sku}}:lock`, `stock:{${sku}}:fence`];
    const fence = Number(
      await this.#redis.eval(ACQUIRE, { keys, arguments: [owner, String(TTL_MS)] }),
    );
    if (fence === 0) return "busy";

    try {
      await this.#syncFenced(sku, fence);
      return "synced";
    } finally {
      await this.#redis
        .eval(RELEASE, { keys: [keys[0]], arguments: [owner] })
        .catch((err) => console.warn(`stock lock ${sku} will expire by itself`, err));
    }
  }

  async #syncFenced(sku: string, fence: number): Promise<void> {
    // Entering the fence in the row together with the read shuts out every
    // earlier holder from here on, even one that wakes up before we write.
    const entered = await this.#db.query<{ on_hand: number; adjusted: number }>(
      `UPDATE stock SET fence = $2
        WHERE sku = $1 AND fence < $2
        RETURNING on_hand, adjusted`,
      [sku, fence],
    );
    if (entered.rowCount !== 1) throw new StaleFenceError(`${sku}: fence ${fence} refused`);
    const { on_hand, adjusted } = entered.rows[0];

    const res = await fetch(`${this.#wmsUrl}/counts/${encodeURIComponent(sku)}`, {
      signal: AbortSignal.timeout(8_000),
    });
    if (!res.ok) throw new Error(`WMS answered ${res.status} for ${sku}`);
    const { counted } = (await res.json()) as { counted: number };

    const written = await this.#db.query(
      `UPDATE stock SET on_hand = $3, adjusted = $4
        WHERE sku = $1 AND fence = $2`,
      [sku, fence, counted, adjusted + (counted - on_hand)],
    );
    if (written.rowCount !== 1) throw new StaleFenceError(`${sku}: overtaken while counting`);
  }
}

export async function createStockSync(db: Db): Promise<StockSync> {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on("error", (err) => console.error("redis", err));
  await redis.connect();
  return new StockSync(redis, db, process.env.WMS_URL ?? "http://wms.internal");
}
