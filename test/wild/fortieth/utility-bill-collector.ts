// Collects a bill from the customer's stored payment method. Jobs come from the
// monthly run and, for the same bill, from the "pay now" button.
import { randomUUID } from 'node:crypto';
import { DelayedError, UnrecoverableError, Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';
import Stripe from 'stripe';

const log = pino({ name: 'bill-collector' });
const connection = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
const pool = new Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 5_000 });
const stripe = new Stripe(process.env.STRIPE_KEY!, { timeout: 20_000, maxNetworkRetries: 1 });

const LOCK_MS = 120_000;
const RELEASE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0`;

interface CollectJob {
  billId: string;
}

async function collect(billId: string): Promise<string> {
  const done = await pool.query('SELECT intent_id FROM collections WHERE bill_id = $1', [billId]);
  if (done.rowCount) return done.rows[0].intent_id;

  const { rows } = await pool.query(
    `SELECT b.total_cents, c.stripe_customer, c.payment_method
       FROM bills b JOIN customers c ON c.id = b.customer_id
      WHERE b.id = $1 AND b.status = 'final'`,
    [billId],
  );
  if (rows.length === 0) throw new Error(`bill ${billId} is not collectable`);
  const bill = rows[0];

  const intent = await stripe.paymentIntents.create(
    {
      amount: bill.total_cents,
      currency: 'eur',
      customer: bill.stripe_customer,
      payment_method: bill.payment_method,
      confirm: true,
      off_session: true,
      metadata: { billId },
    },
    { idempotencyKey: `collect-bill-${billId}` },
  );

  // the payment_intent webhook writes the same row, whoever comes first
  await pool.query(
    `INSERT INTO collections (bill_id, intent_id, cents)
     VALUES ($1, $2, $3)
     ON CONFLICT (bill_id) DO NOTHING`,
    [billId, intent.id, bill.total_cents],
  );
  return intent.id;
}

async function declined(billId: string, err: Error): Promise<never> {
  // dunning sends a letter with a bank transfer slip, it does not come back here
  await pool.query(`UPDATE bills SET status = 'dunning' WHERE id = $1 AND status = 'final'`, [billId]);
  throw new UnrecoverableError(err.message);
}

async function process_(job: Job<CollectJob>, jobToken?: string): Promise<string> {
  const { billId } = job.data;
  const key = `collect:${billId}`;
  const owner = randomUUID();

  const got = await connection.set(key, owner, 'PX', LOCK_MS, 'NX');
  if (got !== 'OK') {
    // does not use up one of the job's attempts
    await job.moveToDelayed(Date.now() + 5_000, jobToken);
    throw new DelayedError();
  }

  try {
    return await collect(billId);
  } catch (err) {
    if (err instanceof Stripe.errors.StripeCardError) return await declined(billId, err);
    throw err;
  } finally {
    await connection.eval(RELEASE, 1, key, owner).catch((err) => log.warn({ err, billId }, 'release failed'));
  }
}

// attempts: 4 with a fixed backoff of ten minutes, see the producer
export const worker = new Worker<CollectJob, string>('bill-collection', process_, {
  connection,
  concurrency: 10,
});

worker.on('completed', (job, intentId) => log.info({ bill: job.data.billId, intentId }, 'collected'));
worker.on('failed', (job, err) => log.error({ bill: job?.data.billId, err }, 'collection failed'));

async function shutdown() {
  await worker.close();
  await Promise.allSettled([pool.end(), connection.quit()]);
}
process.once('SIGTERM', () => void shutdown());
