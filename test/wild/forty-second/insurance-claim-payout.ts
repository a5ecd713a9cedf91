import { ConflictException, Inject, Injectable, Logger, ServiceUnavailableException } from '@nestjs/common';
import type Redis from 'ioredis';
import { Mutex, TimeoutError } from 'redis-semaphore';
import { DataSource } from 'typeorm';

// The two queries (5s each, set on the DataSource) and the bank call (10s) are
// at most 20s together, pool wait is capped at 5s.
const LOCK_TIMEOUT = 60_000;
const BANK_TIMEOUT = 10_000;

@Injectable()
export class ClaimPayoutService {
  private readonly log = new Logger(ClaimPayoutService.name);

  constructor(
    @Inject('REDIS') private readonly redis: Redis,
    private readonly db: DataSource,
  ) {}

  async payOut(claimId: string): Promise<{ paymentId: string }> {
    const lost = new AbortController();
    const mutex = new Mutex(this.redis, `claim-payout:${claimId}`, {
      lockTimeout: LOCK_TIMEOUT,
      refreshInterval: 15_000,
      acquireTimeout: 4_000,
      retryInterval: 100,
      onLockLost: (err) => {
        this.log.error(`payout lock lost for ${claimId}: ${err.message}`);
        lost.abort(err);
      },
    });

    try {
      await mutex.acquire();
    } catch (err) {
      if (err instanceof TimeoutError) throw new ConflictException('claim is being paid out');
      throw err;
    }

    try {
      return await this.payOutLocked(claimId, lost.signal);
    } finally {
      try {
        await mutex.release();
      } catch (err) {
        this.log.warn(`payout lock ${claimId} left to expire: ${(err as Error).message}`);
      }
    }
  }

  private async payOutLocked(claimId: string, signal: AbortSignal): Promise<{ paymentId: string }> {
    const [claim] = await this.db.query(
      'SELECT id, iban, approved_amount, payment_id FROM claims WHERE id = $1',
      [claimId],
    );
    if (!claim) throw new ConflictException('unknown claim');
    if (claim.payment_id) return { paymentId: claim.payment_id };

    signal.throwIfAborted();
    const res = await fetch(`${process.env.BANK_URL}/transfers`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${process.env.BANK_TOKEN}`,
        'idempotency-key': `claim-${claimId}`,
      },
      body: JSON.stringify({ iban: claim.iban, amount: claim.approved_amount }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(BANK_TIMEOUT)]),
    });
    if (!res.ok) throw new ServiceUnavailableException(`bank said ${res.status}`);
    const { id } = (await res.json()) as { id: string };

    await this.db.query('UPDATE claims SET payment_id = $1, paid_at = now() WHERE id = $2 AND payment_id IS NULL', [
      id,
      claimId,
    ]);
    return { paymentId: id };
  }
}
