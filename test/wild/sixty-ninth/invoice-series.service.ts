import { ConflictException, Injectable, Logger, ServiceUnavailableException } from '@nestjs/common';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { FiscalSigner } from '../fiscal/fiscal-signer';

export interface InvoiceDraft {
  orderId: string;
  series: string;
  customerId: string;
  totalCents: number;
  issuedAt: string;
}

/*
 * The fence follows the clock of the Redis node, so it keeps rising even when the
 * node comes back empty.
 */
const LOCK_WITH_FENCE = `
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return false
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
local fence = now
if fence <= last then fence = last + 1 end
local s = string.format('%.0f', fence)
redis.call('SET', KEYS[2], s)
return s
`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`;

@Injectable()
export class InvoiceSeriesService {
  private readonly logger = new Logger(InvoiceSeriesService.name);
  private readonly ttlMs = 20_000;

  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
    private readonly signer: FiscalSigner,
  ) {}

  /**
   * Issues the next invoice of a series. Numbers are gapless and every invoice carries the
   * hash of its predecessor, so only one may be under way for each series.
   */
  async issue(draft: InvoiceDraft): Promise<{ number: number; signature: string }> {
    const lockKey = `{inv:${draft.series}}:lock`;
    const fenceKey = `{inv:${draft.series}}:fence`;
    const token = randomUUID();
    try {
      const fence = await this.waitForLock(lockKey, fenceKey, token);
      return await this.issueWithFence(draft, fence);
    } finally {
      await this.redis
        .eval(UNLOCK, 1, lockKey, token)
        .catch((e) => this.logger.warn(`unlock ${lockKey}: ${e.message}`));
    }
  }

  private async waitForLock(lockKey: string, fenceKey: string, token: string): Promise<string> {
    const giveUpAt = Date.now() + 10_000;
    for (;;) {
      const fence = (await this.redis.eval(LOCK_WITH_FENCE, 2, lockKey, fenceKey, token, this.ttlMs)) as string | null;
      if (fence) return fence;
      if (Date.now() > giveUpAt) throw new ServiceUnavailableException('invoice series is busy');
      await sleep(80 + Math.random() * 120);
    }
  }

  private async issueWithFence(draft: InvoiceDraft, fence: string) {
    // an order has one invoice (unique index), a repeated call gets the one it has
    const known = await this.pool.query('SELECT number, signature FROM invoices WHERE order_id = $1', [draft.orderId]);
    if (known.rows.length) return { number: Number(known.rows[0].number), signature: known.rows[0].signature };

    const { rows } = await this.pool.query(
      'SELECT last_number, last_hash FROM invoice_series WHERE series = $1',
      [draft.series],
    );
    if (!rows.length) throw new ConflictException(`unknown series ${draft.series}`);
    const previous = Number(rows[0].last_number);
    const number = previous + 1;

    // Computes a signature and registers nothing: an unused one can be thrown away.
    const { signature, hash } = await this.signer.sign({ ...draft, number, previousHash: rows[0].last_hash });

    const db = await this.pool.connect();
    try {
      await db.query('BEGIN');
      const upd = await db.query(
        `UPDATE invoice_series SET last_number = $2, last_hash = $3, fence = $4
          WHERE series = $1 AND last_number = $5 AND fence < $4::bigint`,
        [draft.series, number, hash, fence, previous],
      );
      if (upd.rowCount !== 1) throw new ConflictException('series moved on, issue the invoice again');
      await db.query(
        `INSERT INTO invoices (series, number, customer_id, total_cents, issued_at, signature, order_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7)`,
        [draft.series, number, draft.customerId, draft.totalCents, draft.issuedAt, signature, draft.orderId],
      );
      await db.query('COMMIT');
      return { number, signature };
    } catch (err) {
      await db.query('ROLLBACK').catch(() => undefined);
      throw err;
    } finally {
      db.release();
    }
  }
}
