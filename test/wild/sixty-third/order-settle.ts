import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { createClient } from 'redis';
import type { Database, Tx } from '../db';
import { logger } from '../logger';

type Redis = ReturnType<typeof createClient>;

const LOCK_TTL_MS = 30_000;
const LOCK_WAIT_MS = 5_000;
const TX_TIMEOUT_MS = 15_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class LockBusyError extends Error {
  constructor(key: string) {
    super(`${key} is locked`);
    this.name = 'LockBusyError';
  }
}

async function withLock<T>(redis: Redis, key: string, fn: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  const giveUpAt = Date.now() + LOCK_WAIT_MS;

  while ((await redis.set(key, token, { NX: true, PX: LOCK_TTL_MS })) !== 'OK') {
    if (Date.now() >= giveUpAt) throw new LockBusyError(key);
    await sleep(80 + Math.random() * 80);
  }

  try {
    return await fn();
  } finally {
    await redis
      .eval(UNLOCK, { keys: [key], arguments: [token] })
      .catch((err) => logger.warn({ err, key }, 'unlock failed, key will expire'));
  }
}

interface Capture {
  id: string;
  cents: number;
  feeCents: number;
}

function bookings(merchantId: string, captures: Capture[]) {
  const gross = captures.reduce((sum, capture) => sum + capture.cents, 0);
  const fees = captures.reduce((sum, capture) => sum + capture.feeCents, 0);
  return [
    { account: `merchant:${merchantId}`, cents: gross - fees },
    { account: 'fees', cents: fees },
    { account: 'clearing', cents: -gross },
  ];
}

async function unsettledCaptures(tx: Tx, orderId: string): Promise<Capture[]> {
  const result = await tx.query(
    `SELECT id, cents, fee_cents AS "feeCents"
       FROM captures WHERE order_id = $1 AND settled_at IS NULL`,
    [orderId],
  );
  return result.rows as Capture[];
}

export class SettlementService {
  private readonly redis: Redis;
  private readonly db: Database;

  constructor(redis: Redis, db: Database) {
    this.redis = redis;
    this.db = db;
  }

  /**
   * Books the captures of an order which are not settled yet. Called by the
   * capture webhook, by the hourly sweep and from the back office.
   */
  async settleOrder(orderId: string, merchantId: string): Promise<number> {
    return this.db.transaction({ isolation: 'read committed', timeoutMs: TX_TIMEOUT_MS }, (tx) =>
      withLock(this.redis, `lock:settle:${orderId}`, async () => {
        const captures = await unsettledCaptures(tx, orderId);
        if (captures.length === 0) return 0;

        for (const { account, cents } of bookings(merchantId, captures)) {
          await tx.query(
            'INSERT INTO ledger_entries (order_id, account, cents) VALUES ($1, $2, $3)',
            [orderId, account, cents],
          );
        }
        await tx.query('UPDATE captures SET settled_at = now() WHERE id = ANY($1)', [
          captures.map((capture) => capture.id),
        ]);

        logger.info({ orderId, count: captures.length }, 'order settled');
        return captures.length;
      }),
    );
  }
}
