import { randomUUID } from "node:crypto";
import { createClient } from "redis";

type RedisClient = ReturnType<typeof createClient>;

/** The part of a pg pool that is used here. */
export interface Sql {
  query<Row>(text: string, values: unknown[]): Promise<{ rows: Row[]; rowCount: number | null }>;
}

const TTL_MS = 15_000;

const ACQUIRE = `
if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
  return redis.call("INCR", KEYS[2])
end
return 0
`;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

export class MerchantBusyError extends Error {}
export class StaleFenceError extends Error {}

export class PayoutLedger {
  constructor(
    private readonly redis: RedisClient,
    private readonly sql: Sql,
  ) {}

  async withMerchant<T>(merchantId: string, work: (fence: number) => Promise<T>): Promise<T> {
    const lockKey = `{payout:${merchantId}}:lock`;
    const token = randomUUID();
    const fence = Number(
      await this.redis.eval(ACQUIRE, {
        keys: [lockKey, `{payout:${merchantId}}:fence`],
        arguments: [token, String(TTL_MS)],
      }),
    );
    if (fence === 0) throw new MerchantBusyError(merchantId);
    try {
      return await work(fence);
    } finally {
      try {
        await this.redis.eval(RELEASE, { keys: [lockKey], arguments: [token] });
      } catch (err) {
        console.warn(`could not release ${lockKey}`, err);
      }
    }
  }

  /** `payoutId` is the primary key of payouts, so a repeated call fails as a whole. */
  payOut(merchantId: string, payoutId: string, amount: number): Promise<{ balance: number }> {
    return this.withMerchant(merchantId, async (fence) => {
      // Reading stamps the row with our fence, from here on older holders cannot write it.
      const opened = await this.sql.query<{ balance: string }>(
        "UPDATE merchants SET fence = $2 WHERE id = $1 AND fence < $2 RETURNING balance",
        [merchantId, fence],
      );
      const row = opened.rows[0];
      if (!row) throw new StaleFenceError(merchantId);

      const balance = Number(row.balance) - amount;
      if (balance < 0) throw new Error(`merchant ${merchantId} has only ${row.balance}`);

      const saved = await this.sql.query(
        `WITH debited AS (
           UPDATE merchants SET balance = $2 WHERE id = $1 AND fence = $3 RETURNING id
         )
         INSERT INTO payouts (id, merchant_id, amount) SELECT $4, id, $5 FROM debited`,
        [merchantId, balance, fence, payoutId, amount],
      );
      if (saved.rowCount !== 1) throw new StaleFenceError(merchantId);
      return { balance };
    });
  }
}
