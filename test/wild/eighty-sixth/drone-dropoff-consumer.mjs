import { Kafka } from 'kafkajs';
import Redis from 'ioredis';
import pg from 'pg';

const SEEN_S = 7 * 24 * 3600;

const redis = new Redis(process.env.REDIS_URL);
redis.on('error', (err) => console.error('redis', err.message));
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000 });

const kafka = new Kafka({ clientId: 'dropoffs', brokers: process.env.KAFKA_BROKERS.split(',') });
const consumer = kafka.consumer({ groupId: 'dropoff-settlement', sessionTimeout: 30_000 });

// Payouts are deduplicated by the partner bank on the idempotency key.
async function payPilot(event) {
  const res = await fetch(`${process.env.PAYOUT_URL}/payouts`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'idempotency-key': `dropoff-${event.id}`,
      authorization: `Bearer ${process.env.PAYOUT_TOKEN}`,
    },
    body: JSON.stringify({ pilot: event.pilotId, cents: event.feeCents, reference: event.deliveryId }),
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`payout ${event.id}: ${res.status}`);
  return (await res.json()).id;
}

async function settle(event) {
  const payoutId = await payPilot(event);
  await db.query(
    `UPDATE deliveries SET status = 'delivered', delivered_at = $2, payout_id = $3
      WHERE id = $1 AND status <> 'delivered'`,
    [event.deliveryId, event.at, payoutId]);
}

async function handle(event) {
  const seen = `dropoff:${event.id}:seen`;
  const fresh = await redis.set(seen, process.env.HOSTNAME ?? 'local', 'EX', SEEN_S, 'NX');
  if (fresh !== 'OK') {
    console.log('dropoff already handled', event.id);
    return;
  }
  try {
    await settle(event);
  } catch (err) {
    await redis.del(seen);
    throw err;
  }
}

await consumer.connect();
await consumer.subscribe({ topic: 'drone.dropoffs', fromBeginning: false });
await consumer.run({
  partitionsConsumedConcurrently: 3,
  eachMessage: async ({ message, heartbeat }) => {
    const event = JSON.parse(message.value.toString());
    if (event.type !== 'dropoff.confirmed') return;
    await handle(event);
    await heartbeat();
  },
});

for (const sig of ['SIGINT', 'SIGTERM']) {
  process.once(sig, async () => {
    await consumer.disconnect();
    await db.end();
    redis.disconnect();
  });
}
