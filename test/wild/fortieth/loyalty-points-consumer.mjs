// Books loyalty points for completed purchases. Topic: pos.purchases
// Kafka delivers at least once (rebalances, mostly), points must be booked once.

import { Kafka, logLevel } from 'kafkajs';
import { createClient } from 'redis';
import pg from 'pg';
import { z } from 'zod';
import pino from 'pino';

const log = pino({ name: 'loyalty-points' });

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 5_000 });
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

const kafka = new Kafka({
  clientId: 'loyalty',
  brokers: process.env.KAFKA_BROKERS.split(','),
  logLevel: logLevel.WARN,
});
const consumer = kafka.consumer({
  groupId: 'loyalty-points',
  retry: { retries: 10, initialRetryTime: 500 },
});

const SEEN_SECONDS = 7 * 24 * 60 * 60; // retention of the topic

const Purchase = z.object({
  purchaseId: z.string().uuid(),
  cardNo: z.string(),
  cents: z.number().int().nonnegative(),
  shop: z.string(),
});

async function bookPoints({ purchaseId, cardNo, cents, shop }) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    const { rows } = await db.query('SELECT factor FROM campaigns WHERE shop = $1 AND active LIMIT 1', [shop]);
    const points = Math.floor((cents / 100) * (rows[0]?.factor ?? 1));
    await db.query('UPDATE cards SET points = points + $2 WHERE card_no = $1', [cardNo, points]);
    await db.query(
      'INSERT INTO point_bookings (card_no, purchase_id, points) VALUES ($1, $2, $3)',
      [cardNo, purchaseId, points],
    );
    await db.query('COMMIT');
    return points;
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

function decode(value) {
  try {
    return JSON.parse(value.toString());
  } catch {
    return undefined;
  }
}

async function handle(message) {
  const parsed = Purchase.safeParse(decode(message.value));
  if (!parsed.success) {
    log.error({ offset: message.offset, issues: parsed.error.issues }, 'malformed purchase');
    return;
  }
  const purchase = parsed.data;

  const first = await redis.set(`loyalty:purchase:${purchase.purchaseId}`, message.offset, {
    NX: true,
    EX: SEEN_SECONDS,
  });
  if (first !== 'OK') {
    log.info({ purchase: purchase.purchaseId }, 'seen before');
    return;
  }

  const points = await bookPoints(purchase);
  log.info({ purchase: purchase.purchaseId, points }, 'booked');
}

await redis.connect();
await consumer.connect();
await consumer.subscribe({ topic: 'pos.purchases' });
await consumer.run({
  partitionsConsumedConcurrently: 3,
  // an error here makes kafkajs back off and deliver the message again
  eachMessage: ({ message }) => handle(message),
});

process.once('SIGTERM', async () => {
  await consumer.disconnect();
  await Promise.allSettled([redis.quit(), pool.end()]);
});
