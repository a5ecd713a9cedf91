import { randomUUID } from 'node:crypto';
import amqp from 'amqplib';
import Redis from 'ioredis';
import pg from 'pg';

const QUEUE = 'parcel.shipped';
const LOCK_TTL_MS = 60_000;

const redis = new Redis(process.env.REDIS_URL);
const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 5_000,
  query_timeout: 5_000,
});

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

/**
 * Records one shipped parcel. An order is shipped in several parcels, each of which has its own
 * message; the order is complete when the shipped quantity reaches the ordered quantity.
 */
async function recordParcel({ orderId, parcelId, quantity }) {
  const inserted = await pool.query(
    'INSERT INTO parcels (id, order_id, quantity) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING',
    [parcelId, orderId, quantity],
  );
  if (inserted.rowCount === 0) {
    console.info('Parcel was recorded before', parcelId);
  }

  const { rows } = await pool.query(
    `SELECT o.quantity AS ordered, COALESCE(SUM(p.quantity), 0)::int AS shipped
       FROM orders o LEFT JOIN parcels p ON p.order_id = o.id
      WHERE o.id = $1 GROUP BY o.quantity`,
    [orderId],
  );
  const status = rows[0].shipped >= rows[0].ordered ? 'SHIPPED' : 'PARTIALLY_SHIPPED';
  await pool.query('UPDATE orders SET status = $2, shipped = $3 WHERE id = $1', [orderId, status, rows[0].shipped]);
}

async function handleMessage(channel, message) {
  const event = JSON.parse(message.content.toString());
  const lockKey = `lock:order:${event.orderId}`;
  const token = randomUUID();

  const acquired = await redis.set(lockKey, token, 'PX', LOCK_TTL_MS, 'NX');
  if (acquired !== 'OK') {
    console.info('Order is being processed by another worker', event.orderId);
    channel.ack(message);
    return;
  }

  try {
    await recordParcel(event);
    channel.ack(message);
  } catch (error) {
    console.error('Failed to record parcel', event.parcelId, error);
    // First failure: try again. Second failure: dead-letter exchange.
    channel.nack(message, false, !message.fields.redelivered);
  } finally {
    await redis.eval(RELEASE_SCRIPT, 1, lockKey, token).catch((error) => {
      console.warn('Failed to release lock', lockKey, error);
    });
  }
}

export async function startConsumer() {
  const connection = await amqp.connect(process.env.AMQP_URL);
  const channel = await connection.createChannel();
  await channel.assertQueue(QUEUE, { durable: true, deadLetterExchange: 'parcel.dlx' });
  await channel.prefetch(10);

  await channel.consume(QUEUE, (message) => {
    if (!message) return;
    handleMessage(channel, message).catch((error) => {
      console.error('Unexpected consumer error', error);
      channel.nack(message, false, !message.fields.redelivered);
    });
  });
  console.info(`Consuming ${QUEUE}`);
}
