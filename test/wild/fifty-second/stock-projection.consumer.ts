import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Kafka, type EachMessagePayload } from 'kafkajs';
import { z } from 'zod';
import { pool } from '../db';
import { config } from '../config';
import { logger } from '../config/logger';

const LOCK_TTL_MS = 20_000;
const MAX_WAIT_MS = 5_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

const eventSchema = z.object({
  eventId: z.string().uuid(),
  sku: z.string().min(1),
  delta: z.number().int(),
});

const redis = new Redis(config.redisUrl, { maxRetriesPerRequest: 2, commandTimeout: 2_000 });
redis.on('error', (err) => logger.warn({ err }, 'redis error'));

const kafka = new Kafka({ clientId: 'stock-projection', brokers: config.kafkaBrokers });
const consumer = kafka.consumer({ groupId: 'stock-projection', retry: { retries: 10 } });

const lockKey = (sku: string) => `lock:stock-level:${sku}`;

async function acquire(sku: string, token: string): Promise<void> {
  const deadline = Date.now() + MAX_WAIT_MS;
  while ((await redis.set(lockKey(sku), token, 'PX', LOCK_TTL_MS, 'NX')) !== 'OK') {
    if (Date.now() >= deadline) throw new Error(`stock lock for ${sku} is busy`);
    await sleep(60 + Math.random() * 60);
  }
}

async function release(sku: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, 1, lockKey(sku), token);
  } catch (err) {
    logger.warn({ err, sku }, 'stock lock release failed');
  }
}

async function nextFence(sku: string): Promise<string> {
  const { rows } = await pool.query(
    `INSERT INTO stock_levels (sku, quantity, fence) VALUES ($1, 0, 1)
     ON CONFLICT (sku) DO UPDATE SET fence = stock_levels.fence + 1
     RETURNING fence`,
    [sku],
  );
  return rows[0].fence;
}

async function recomputeLevel(sku: string): Promise<void> {
  const fence = await nextFence(sku);
  const { rows } = await pool.query('SELECT COALESCE(SUM(delta), 0) AS quantity FROM stock_ledger WHERE sku = $1', [sku]);
  const result = await pool.query(
    'UPDATE stock_levels SET quantity = $2, updated_at = now() WHERE sku = $1 AND fence = $3',
    [sku, rows[0].quantity, fence],
  );
  if (result.rowCount !== 1) throw new Error(`stock level of ${sku} moved past fence ${fence}`);
}

async function handle({ message, heartbeat }: EachMessagePayload): Promise<void> {
  const event = eventSchema.safeParse(JSON.parse(message.value?.toString() ?? 'null'));
  if (!event.success) {
    logger.error({ offset: message.offset, issues: event.error.issues }, 'malformed stock event');
    return;
  }

  const { eventId, sku, delta } = event.data;
  await pool.query(
    'INSERT INTO stock_ledger (event_id, sku, delta) VALUES ($1, $2, $3) ON CONFLICT (event_id) DO NOTHING',
    [eventId, sku, delta],
  );

  const token = randomUUID();
  await acquire(sku, token);
  try {
    await heartbeat();
    await recomputeLevel(sku);
  } finally {
    await release(sku, token);
  }
}

export async function start(): Promise<void> {
  await consumer.connect();
  await consumer.subscribe({ topics: ['warehouse.movements', 'orders.reservations'] });
  await consumer.run({ eachMessage: handle });
}
