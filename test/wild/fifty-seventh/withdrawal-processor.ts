import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';
import { Pool } from 'pg';
import pino from 'pino';
import { config } from './config';

const log = pino({ name: 'withdrawals' });

// Budget under the lock, worst case: 2 queries x (3s pool wait + 3s statement) + 8s provider = 20s,
// plus at most 3s that the SET itself may take. The lock lives 30s.
const LOCK_TTL_MS = 30_000;
const MAX_ACQUIRE_RTT_MS = 3_000;
const PROVIDER_TIMEOUT_MS = 8_000;

const pool = new Pool({
  connectionString: config.databaseUrl,
  connectionTimeoutMillis: 3_000,
  statement_timeout: 3_000,
  query_timeout: 3_000,
});

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export type WithdrawalResult = 'sent' | 'skipped' | 'busy';

export class WithdrawalProcessor {
  constructor(private readonly redis: RedisClientType) {}

  /** One worker at a time per wallet. */
  async process(walletId: string, withdrawalId: string): Promise<WithdrawalResult> {
    const key = `wallet:${walletId}:withdrawal-lock`;
    const token = await this.acquire(key, 5_000);
    if (token === null) return 'busy';
    try {
      return await this.send(walletId, withdrawalId);
    } finally {
      await this.release(key, token);
    }
  }

  private async send(walletId: string, withdrawalId: string): Promise<WithdrawalResult> {
    // Debit and claim in one statement; wallets has check (balance_cents >= 0).
    const claimed = await pool.query<{ amount_cents: string }>(
      `with w as (
         update withdrawals set status = 'sending', updated_at = now()
          where id = $1 and wallet_id = $2 and status = 'approved'
            and amount_cents <= (select balance_cents from wallets where id = $2)
         returning wallet_id, amount_cents)
       update wallets set balance_cents = balance_cents - w.amount_cents
         from w where wallets.id = w.wallet_id
       returning w.amount_cents`,
      [withdrawalId, walletId],
    );
    if (claimed.rowCount === 0) return 'skipped';

    const res = await fetch(`${config.payoutUrl}/v2/transfers`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${config.payoutToken}`,
        'idempotency-key': withdrawalId,
      },
      body: JSON.stringify({ reference: withdrawalId, amount: Number(claimed.rows[0].amount_cents) }),
      signal: AbortSignal.timeout(PROVIDER_TIMEOUT_MS),
    });
    if (!res.ok) {
      // Stays in 'sending'; the reconciler asks the provider by reference and settles or refunds.
      throw new Error(`payout provider answered ${res.status} for ${withdrawalId}`);
    }
    await pool.query(`update withdrawals set status = 'sent', updated_at = now() where id = $1 and status = 'sending'`, [
      withdrawalId,
    ]);
    log.info({ walletId, withdrawalId }, 'withdrawal sent');
    return 'sent';
  }

  private async acquire(key: string, waitMs: number): Promise<string | null> {
    const giveUpAt = Date.now() + waitMs;
    const token = randomBytes(16).toString('hex');
    do {
      const sentAt = Date.now();
      const reply = await this.redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
      if (reply === 'OK') {
        if (Date.now() - sentAt <= MAX_ACQUIRE_RTT_MS) return token;
        // Answer came too late to leave us our budget.
        await this.release(key, token);
        return null;
      }
      await sleep(100 + Math.random() * 150);
    } while (Date.now() < giveUpAt);
    return null;
  }

  private async release(key: string, token: string): Promise<void> {
    try {
      await this.redis.eval(UNLOCK, { keys: [key], arguments: [token] });
    } catch (err) {
      log.warn({ err, key }, 'unlock failed, key will expire');
    }
  }
}
