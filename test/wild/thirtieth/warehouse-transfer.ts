import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const TTL_MS = 60_000;
const WAIT_MS = 10_000;
const DB_TIMEOUT_MS = 5_000;

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

export interface StockDb {
  // timeoutMs is enforced by the server (statement_timeout)
  stockLevel(warehouse: string, sku: string, opts: { timeoutMs: number }): Promise<number>;
  // movement id is the primary key, both rows change in one transaction
  applyMovement(
    m: { id: string; from: string; to: string; sku: string; qty: number },
    opts: { timeoutMs: number },
  ): Promise<void>;
}

export class WarehouseBusyError extends Error {
  constructor(readonly warehouse: string) {
    super(`warehouse ${warehouse} is busy`);
  }
}

class WarehouseLock implements AsyncDisposable {
  private constructor(
    private readonly redis: Client,
    private readonly key: string,
    private readonly token: string,
    private readonly expiresAt: number,
  ) {}

  static async acquire(redis: Client, warehouse: string): Promise<WarehouseLock> {
    const key = `lock:warehouse:${warehouse}`;
    const giveUpAt = Date.now() + WAIT_MS;
    for (;;) {
      const sentAt = Date.now();
      const lock = new WarehouseLock(redis, key, randomUUID(), sentAt + TTL_MS);
      let reply: unknown;
      try {
        reply = await redis.set(key, lock.token, { NX: true, PX: TTL_MS });
      } catch (err) {
        await lock[Symbol.asyncDispose]();
        throw err;
      }
      if (reply === 'OK') return lock;
      if (Date.now() >= giveUpAt) throw new WarehouseBusyError(warehouse);
      await sleep(40 + Math.random() * 160);
    }
  }

  /** Throws unless the lease lasts at least `ms` longer. */
  require(ms: number): void {
    if (Date.now() + ms > this.expiresAt) throw new Error(`${this.key}: lease too short to go on`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.redis.eval(UNLOCK, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      // don't turn a finished transfer into a failed one
      console.warn(`${this.key}: unlock failed, waiting for expiry`, err);
    }
  }
}

export interface Transfer {
  id: string;
  from: string;
  to: string;
  sku: string;
  qty: number;
}

export async function transferStock(redis: Client, db: StockDb, t: Transfer): Promise<void> {
  if (t.from === t.to) throw new RangeError('source and destination are the same warehouse');
  if (!Number.isInteger(t.qty) || t.qty <= 0) throw new RangeError('qty must be a positive integer');

  // A->B and B->A at the same time must not deadlock
  const [one, two] = [t.from, t.to].sort();
  await using first = await WarehouseLock.acquire(redis, one!);
  await using second = await WarehouseLock.acquire(redis, two!);

  first.require(4 * DB_TIMEOUT_MS);
  second.require(4 * DB_TIMEOUT_MS);
  const available = await db.stockLevel(t.from, t.sku, { timeoutMs: DB_TIMEOUT_MS });
  if (available < t.qty) throw new Error(`only ${available} of ${t.sku} left in ${t.from}`);

  first.require(2 * DB_TIMEOUT_MS);
  second.require(2 * DB_TIMEOUT_MS);
  await db.applyMovement(t, { timeoutMs: DB_TIMEOUT_MS });
}
