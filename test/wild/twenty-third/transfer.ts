import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";

// tx() commits when the callback resolves and rolls back when it throws.
type Tx = { query(sql: string, params: unknown[]): Promise<{ rowCount: number }> };
type Db = { tx<T>(work: (t: Tx) => Promise<T>): Promise<T> };

type Transfer = { id: string; from: string; to: string; cents: bigint };
type Outcome = "booked" | "duplicate" | "busy";

const LOCK_MS = 10_000;
const FENCE_KEY = "{wallet}:fence";

// Both wallets or none. The fence number is drawn in the same breath.
const GRAB = `
if redis.call('exists', KEYS[1], KEYS[2]) > 0 then return false end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('set', KEYS[2], ARGV[1], 'PX', ARGV[2])
return redis.call('incr', KEYS[3])`;

const LET_GO = `
local n = 0
for _, k in ipairs(KEYS) do
  if redis.call('get', k) == ARGV[1] then n = n + redis.call('del', k) end
end
return n`;

const lockKey = (wallet: string) => `{wallet}:lock:${wallet}`;

export function makeTransfer(redis: Redis, db: Db) {
  return async function transfer({ id, from, to, cents }: Transfer): Promise<Outcome> {
    if (from === to) throw new RangeError("source and target are the same wallet");
    if (cents <= 0n) throw new RangeError("amount must be positive");

    const token = randomUUID();
    const keys = [lockKey(from), lockKey(to)];

    const fence = await redis.eval(GRAB, 3, ...keys, FENCE_KEY, token, LOCK_MS);
    if (typeof fence !== "number") return "busy";

    try {
      return await db.tx(async (t) => {
        // The primary key on transfers.id makes a repeated request harmless.
        const fresh = await t.query(
          "INSERT INTO transfers (id, src, dst, cents) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING",
          [id, from, to, cents.toString()],
        );
        if (fresh.rowCount === 0) return "duplicate";

        // A holder that overslept its lock carries an old number and is turned away here.
        // (If Redis is ever wiped, seed the counter with max(fence); until then we only refuse.)
        const debit = await t.query(
          "UPDATE wallets SET cents = cents - $1, fence = $2 WHERE id = $3 AND fence < $2 AND cents >= $1",
          [cents.toString(), fence, from],
        );
        if (debit.rowCount !== 1) throw new Error(`debit of ${from} refused`);

        const credit = await t.query(
          "UPDATE wallets SET cents = cents + $1, fence = $2 WHERE id = $3 AND fence < $2",
          [cents.toString(), fence, to],
        );
        if (credit.rowCount !== 1) throw new Error(`credit of ${to} refused`);

        return "booked";
      });
    } finally {
      // if this gets lost, the TTL cleans up
      await redis.eval(LET_GO, 2, ...keys, token).catch(() => undefined);
    }
  };
}
