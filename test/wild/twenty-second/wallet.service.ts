import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

export interface Database {
  query<Row>(sql: string, params: unknown[]): Promise<{ rows: Row[] }>;
}

const LOCK_TTL_MS = 10_000;

// Takes the lock and hands out the next fencing number in one step.
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

/**
 * Changes wallet balances, one change per account at a time.
 *
 * The Redis lock keeps callers from getting in each other's way; the fencing
 * number (column `accounts.fence`, default 0) makes the database refuse anything
 * from a holder that has been overtaken.
 */
export class WalletService {
  readonly #redis: Redis;
  readonly #db: Database;

  constructor(redis: Redis, db: Database) {
    this.#redis = redis;
    this.#db = db;
  }

  async debit(accountId: string, amountCents: number): Promise<number> {
    if (!Number.isSafeInteger(amountCents) || amountCents <= 0) {
      throw new RangeError('amountCents must be a positive integer');
    }
    return this.#change(accountId, (balance) => {
      if (balance < amountCents) throw new Error('Insufficient funds');
      return balance - amountCents;
    });
  }

  async credit(accountId: string, amountCents: number): Promise<number> {
    if (!Number.isSafeInteger(amountCents) || amountCents <= 0) {
      throw new RangeError('amountCents must be a positive integer');
    }
    return this.#change(accountId, (balance) => balance + amountCents);
  }

  async #change(accountId: string, compute: (balance: number) => number): Promise<number> {
    // The hash tag keeps both keys in one slot on a cluster.
    const lockKey = `lock:{wallet:${accountId}}`;
    const fenceKey = `fence:{wallet:${accountId}}`;
    const token = randomUUID();

    const fence = Number(await this.#redis.eval(ACQUIRE, 2, lockKey, fenceKey, token, LOCK_TTL_MS));
    if (fence === 0) throw new Error(`Wallet ${accountId} is busy, please retry`);

    try {
      // Claim the row with our number as we read it: from here on, older holders are locked out.
      const claimed = await this.#db.query<{ balance: string }>(
        'UPDATE accounts SET fence = $2 WHERE id = $1 AND fence < $2 RETURNING balance',
        [accountId, fence],
      );
      if (claimed.rows.length === 0) throw new Error('Account not found, or claimed by a newer holder');

      const next = compute(Number(claimed.rows[0].balance));

      // Only goes through if nobody has claimed the row since.
      const saved = await this.#db.query<{ balance: string }>(
        'UPDATE accounts SET balance = $3 WHERE id = $1 AND fence = $2 RETURNING balance',
        [accountId, fence, next],
      );
      if (saved.rows.length === 0) throw new Error('Overtaken by a newer holder, nothing was changed');
      return next;
    } finally {
      await this.#redis.eval(RELEASE, 1, lockKey, token).catch((err: unknown) => {
        console.warn(`Could not release ${lockKey}, it expires within ${LOCK_TTL_MS} ms`, err);
      });
    }
  }
}
