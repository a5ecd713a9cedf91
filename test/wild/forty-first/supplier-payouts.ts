import Redis from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import Stripe from 'stripe';
import cron from 'node-cron';
import { Pool } from 'pg';
import pino from 'pino';

const log = pino({ name: 'payouts' });
const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const stripe = new Stripe(process.env.STRIPE_KEY!, { timeout: 15_000, maxNetworkRetries: 1 });

const nodes = process.env.REDIS_NODES!.split(',').map((url) => new Redis(url, { maxRetriesPerRequest: 2 }));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 0,
  automaticExtensionThreshold: 10_000,
});

redlock.on('error', (err) => log.debug({ err: String(err) }, 'redlock'));

interface Payout {
  id: string;
  account: string;
  cents: number;
}

async function nextBatch(): Promise<Payout[]> {
  // Stripe forgets idempotency keys after a day. What we tried first more than 20 hours ago
  // goes to the "look at it by hand" list of the back office instead.
  const { rows } = await pool.query(
    `select p.id, s.stripe_account as account, p.cents
       from payouts p join suppliers s on s.id = p.supplier_id
      where p.status = 'pending'
        and (p.first_attempt_at is null or p.first_attempt_at > now() - interval '20 hours')
      order by p.created_at
      limit 200`,
  );
  return rows;
}

async function pay(p: Payout) {
  await pool.query('update payouts set first_attempt_at = coalesce(first_attempt_at, now()) where id = $1', [p.id]);
  const transfer = await stripe.transfers.create(
    { amount: p.cents, currency: 'eur', destination: p.account, transfer_group: `payout-${p.id}` },
    { idempotencyKey: `payout-${p.id}` },
  );
  await pool.query(`update payouts set status = 'paid', transfer_id = $2 where id = $1 and status = 'pending'`, [
    p.id,
    transfer.id,
  ]);
}

export async function runPayouts() {
  await redlock.using(['locks:payouts'], 60_000, async (signal) => {
    for (const p of await nextBatch()) {
      if (signal.aborted) throw signal.error ?? new Error('payout lock lost');
      try {
        await pay(p);
      } catch (err) {
        // stays pending, next round picks it up
        log.error({ err, payout: p.id }, 'payout failed');
      }
    }
  });
}

cron.schedule('*/15 * * * *', async () => {
  try {
    await runPayouts();
  } catch (err) {
    if (err instanceof ExecutionError) log.info('another instance does the payouts');
    else log.error({ err }, 'payout run stopped');
  }
});
