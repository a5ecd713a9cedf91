import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { DelayedError, Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import { Pool } from 'pg';
import Stripe from 'stripe';
import { logger } from '@acme/logging';

const connection = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
const lockRedis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000 });
const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const stripe = new Stripe(process.env.STRIPE_KEY!, { timeout: 20_000, maxNetworkRetries: 1 });

const TTL_MS = 30_000;
const MARGIN_MS = 2_000;

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

class LockLost extends Error {}

interface Lease {
  assertHeld(): void;
  release(): Promise<void>;
}

async function lease(key: string): Promise<Lease | null> {
  const token = randomUUID();
  const askedAt = performance.now();
  if ((await lockRedis.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') return null;

  let validUntil = askedAt + TTL_MS - MARGIN_MS;
  let lost = false;

  const timer = setInterval(async () => {
    const renewedAt = performance.now();
    try {
      const renewed = await lockRedis.eval(RENEW, 1, key, token, TTL_MS);
      if (renewed === 1) validUntil = Math.max(validUntil, renewedAt + TTL_MS - MARGIN_MS);
      else lost = true;
    } catch (err) {
      // not fatal yet, validUntil decides
      logger.warn({ err, key }, 'lease renewal failed');
    }
  }, TTL_MS / 3);

  return {
    assertHeld() {
      if (lost || performance.now() >= validUntil) throw new LockLost(key);
    },
    async release() {
      clearInterval(timer);
      await lockRedis.eval(RELEASE, 1, key, token).catch((err) => logger.warn({ err, key }, 'release failed'));
    },
  };
}

/** Claims the open ledger entries and fixes the amount; a second call finds the same payout. */
async function preparePayout(merchantId: string, periodEnd: string) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const created = await client.query<{ id: string }>(
      `INSERT INTO payouts (merchant_id, period_end, amount_cents) VALUES ($1, $2, 0)
       ON CONFLICT (merchant_id, period_end) DO NOTHING RETURNING id`,
      [merchantId, periodEnd],
    );
    if (created.rows.length === 1) {
      await client.query(
        `WITH taken AS (
           UPDATE ledger_entries SET payout_id = $1
            WHERE merchant_id = $2 AND payout_id IS NULL AND booked_at < $3 RETURNING amount_cents)
         UPDATE payouts SET amount_cents = (SELECT COALESCE(sum(amount_cents), 0) FROM taken) WHERE id = $1`,
        [created.rows[0].id, merchantId, periodEnd],
      );
    }
    const payout = await client.query<{ id: string; amount_cents: string; transfer_id: string | null; stripe_account: string }>(
      `SELECT p.id, p.amount_cents, p.transfer_id, m.stripe_account
         FROM payouts p JOIN merchants m ON m.id = p.merchant_id
        WHERE p.merchant_id = $1 AND p.period_end = $2`,
      [merchantId, periodEnd],
    );
    await client.query('COMMIT');
    return payout.rows[0];
  } catch (err) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    client.release();
  }
}

async function processPayout(job: Job<{ merchantId: string; periodEnd: string }>, jobToken?: string) {
  const { merchantId, periodEnd } = job.data;
  const held = await lease(`payout:merchant:${merchantId}`);
  if (!held) {
    await job.moveToDelayed(Date.now() + 10_000, jobToken);
    throw new DelayedError();
  }
  try {
    const payout = await preparePayout(merchantId, periodEnd);
    if (payout.transfer_id || Number(payout.amount_cents) <= 0) return { payoutId: payout.id };

    held.assertHeld();
    const transfer = await stripe.transfers.create(
      { amount: Number(payout.amount_cents), currency: 'eur', destination: payout.stripe_account, transfer_group: payout.id },
      { idempotencyKey: `payout-${payout.id}` }, // retries all happen within the hour
    );
    await pool.query('UPDATE payouts SET transfer_id = $1, sent_at = now() WHERE id = $2 AND transfer_id IS NULL', [transfer.id, payout.id]);
    return { payoutId: payout.id, transferId: transfer.id };
  } finally {
    await held.release();
  }
}

new Worker('merchant-payouts', processPayout, { connection, concurrency: 5 });
