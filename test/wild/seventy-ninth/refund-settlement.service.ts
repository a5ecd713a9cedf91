import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';

interface RefundGateway {
  refund(input: { chargeId: string; cents: number; idempotencyKey: string; signal: AbortSignal }): Promise<{ id: string }>;
}

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const LOCK_TTL_MS = 90_000;
const GATEWAY_TIMEOUT_MS = 15_000;

export class RefundBusyError extends Error {
  constructor(refundId: string) {
    super(`refund ${refundId} is being settled elsewhere`);
  }
}

export class RefundSettlementService {
  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool, // created with statement_timeout = 5000, connectionTimeoutMillis = 5000
    private readonly gateway: RefundGateway,
  ) {}

  async settle(refundId: string): Promise<'settled' | 'already-settled'> {
    const key = `refund:${refundId}:settle`;
    const token = randomUUID();
    const got = await this.redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
    if (got !== 'OK') throw new RefundBusyError(refundId);

    try {
      return await this.settleLocked(refundId);
    } finally {
      await this.redis.eval(UNLOCK, 1, key, token).catch((err: Error) => {
        console.warn('could not unlock %s: %s', key, err.message);
      });
    }
  }

  private async settleLocked(refundId: string): Promise<'settled' | 'already-settled'> {
    const { rows } = await this.pool.query(
      'SELECT charge_id, cents, status FROM refunds WHERE id = $1',
      [refundId],
    );
    if (rows.length === 0) throw new Error(`no such refund: ${refundId}`);
    if (rows[0].status === 'settled') return 'already-settled';

    const result = await this.gateway.refund({
      chargeId: rows[0].charge_id,
      cents: rows[0].cents,
      idempotencyKey: `refund-${refundId}`,
      signal: AbortSignal.timeout(GATEWAY_TIMEOUT_MS),
    });

    const updated = await this.pool.query(
      `UPDATE refunds SET status = 'settled', gateway_id = $2, settled_at = now()
        WHERE id = $1 AND status = 'pending'`,
      [refundId, result.id],
    );
    return updated.rowCount === 1 ? 'settled' : 'already-settled';
  }
}
