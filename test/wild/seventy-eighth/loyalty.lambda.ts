import type { SQSBatchResponse, SQSHandler, SQSRecord } from 'aws-lambda';
import Redis from 'ioredis';
import { Pool } from 'pg';

const redis = new Redis(process.env.REDIS_URL!, {
  maxRetriesPerRequest: 2,
  commandTimeout: 2_000,
});
redis.on('error', (e) => console.warn('redis', e.message));

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  max: 2,
  statement_timeout: 10_000,
});

// SQS is at-least-once and keeps a message for 4 days at most
const DEDUP_TTL_SECONDS = 4 * 24 * 3600;

interface OrderPaid {
  orderId: string;
  customerId: string;
  totalCents: number;
}

/** true when we are the first to see this message */
async function markSeen(messageId: string): Promise<boolean> {
  const res = await redis.set(`loyalty:seen:${messageId}`, Date.now(), 'EX', DEDUP_TTL_SECONDS, 'NX');
  return res === 'OK';
}

async function creditPoints(event: OrderPaid) {
  const points = Math.floor(event.totalCents / 100);
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const { rows } = await client.query(
      'UPDATE loyalty_accounts SET points = points + $2 WHERE customer_id = $1 RETURNING points',
      [event.customerId, points],
    );
    if (rows.length === 0) throw new Error(`no loyalty account for ${event.customerId} yet`);

    await client.query(
      'INSERT INTO loyalty_ledger (customer_id, order_id, points, balance) VALUES ($1, $2, $3, $4)',
      [event.customerId, event.orderId, points, rows[0].points],
    );
    await client.query('COMMIT');
  } catch (err) {
    await client.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    client.release();
  }
}

async function handleRecord(record: SQSRecord) {
  const first = await markSeen(record.messageId);
  if (!first) {
    console.info('duplicate delivery, skipping', record.messageId);
    return;
  }

  const event = JSON.parse(record.body) as OrderPaid;
  await creditPoints(event);
  console.info('credited', { orderId: event.orderId, customerId: event.customerId });
}

export const handler: SQSHandler = async (event): Promise<SQSBatchResponse> => {
  const batchItemFailures: SQSBatchResponse['batchItemFailures'] = [];

  for (const record of event.Records) {
    try {
      await handleRecord(record);
    } catch (err) {
      // goes back to the queue, redrive policy is maxReceiveCount = 5
      console.error('record failed, will be retried', record.messageId, err);
      batchItemFailures.push({ itemIdentifier: record.messageId });
    }
  }

  return { batchItemFailures };
};
