import Redis from 'ioredis';
import pg from 'pg';
import cron from 'node-cron';
import Redlock from 'redlock5';

// Short timeouts, so that an extension fails instead of hanging on a dead node.
const nodes = process.env.REDIS_NODES.split(',').map((url) => {
  const redis = new Redis(url, { commandTimeout: 1_000, maxRetriesPerRequest: 1 });
  redis.on('error', (err) => console.error('redis node', err.message));
  return redis;
});

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 0, // another instance is at it: nothing to do
  automaticExtensionThreshold: 5_000,
});
redlock.on('error', (err) => {
  if (err.name !== 'ResourceLockedError') console.warn('redlock', err.message);
});

const db = new pg.Pool();

async function transfer(payout) {
  const res = await fetch(`${process.env.BANK_URL}/transfers`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      // The bank keeps these for good and answers a repeat with the first transfer.
      'idempotency-key': `payout-${payout.id}`,
    },
    body: JSON.stringify({ iban: payout.iban, cents: payout.cents }),
    signal: AbortSignal.timeout(4_000),
  });
  if (!res.ok) throw new Error(`bank answered ${res.status}`);
  return (await res.json()).id;
}

export async function sendPendingPayouts() {
  let started = false;
  let sent = 0;
  try {
    await redlock.using(['locks:payouts'], 20_000, async (signal) => {
      started = true;
      const { rows } = await db.query(
        "select id, iban, cents from payouts where status = 'pending' order by id limit 500",
      );
      for (const payout of rows) {
        if (signal.aborted) throw signal.error ?? new Error('lock lost');
        const transferId = await transfer(payout);
        const res = await db.query(
          "update payouts set status = 'sent', transfer_id = $2 where id = $1 and status = 'pending'",
          [payout.id, transferId],
        );
        sent += res.rowCount;
      }
    });
  } catch (err) {
    if (started) {
      // Work may be partly done; what is still pending is picked up by the next run.
      console.error(`payout run ended early after ${sent} payouts`, err);
    } else {
      console.info('payouts: lock not obtained, skipping', err.message);
    }
  }
  return sent;
}

cron.schedule('*/10 * * * *', () => {
  sendPendingPayouts().catch((err) => console.error(err));
});
