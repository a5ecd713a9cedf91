import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import amqp, { type Channel, type ConsumeMessage } from 'amqplib';
import Redis from 'ioredis';
import { z } from 'zod';
import { pool } from '../db';
import { config } from '../config';
import { logger } from '../config/logger';

const QUEUE = 'dispatch.orders';
const LOCK_TTL_MS = 30_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

const messageSchema = z.object({ orderId: z.string().uuid(), zoneId: z.string().uuid() });

const redis = new Redis(config.redisUrl, { commandTimeout: 1_500, maxRetriesPerRequest: 1 });
redis.on('error', (err) => logger.warn({ err }, 'redis error'));

const lockKey = (zoneId: string) => `lock:dispatch:${zoneId}`;

async function acquire(zoneId: string, token: string): Promise<boolean> {
  try {
    const reply = await redis.set(lockKey(zoneId), token, 'PX', LOCK_TTL_MS, 'NX');
    return reply === 'OK';
  } catch (err) {
    logger.warn({ err, zoneId }, 'lock backend not reachable, continuing with dispatch');
    return true;
  }
}

async function release(zoneId: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, 1, lockKey(zoneId), token);
  } catch (err) {
    logger.warn({ err, zoneId }, 'dispatch lock release failed');
  }
}

async function assignCourier(orderId: string, zoneId: string): Promise<string> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query("SET LOCAL statement_timeout = '4s'");

    const existing = await client.query('SELECT courier_id FROM assignments WHERE order_id = $1', [orderId]);
    let courierId: string | undefined = existing.rows[0]?.courier_id;
    if (!courierId) {
      const free = await client.query(
        `SELECT c.id FROM couriers c
          WHERE c.zone_id = $1 AND c.on_shift
            AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.courier_id = c.id AND a.finished_at IS NULL)
          ORDER BY c.last_dropoff_at NULLS FIRST
          LIMIT 1`,
        [zoneId],
      );
      courierId = free.rows[0]?.id;
      if (!courierId) throw new Error(`no free courier in zone ${zoneId}`);
      await client.query('INSERT INTO assignments (order_id, courier_id) VALUES ($1, $2)', [orderId, courierId]);
    }
    await client.query('COMMIT');
    return courierId;
  } catch (err) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    client.release();
  }
}

async function onMessage(channel: Channel, msg: ConsumeMessage): Promise<void> {
  const { orderId, zoneId } = messageSchema.parse(JSON.parse(msg.content.toString()));
  const token = randomUUID();
  if (!(await acquire(zoneId, token))) {
    await sleep(250);
    channel.nack(msg, false, true);
    return;
  }
  try {
    const courierId = await assignCourier(orderId, zoneId);
    logger.info({ orderId, courierId }, 'courier assigned');
  } finally {
    await release(zoneId, token);
  }
  channel.ack(msg);
}

export async function start(): Promise<void> {
  const connection = await amqp.connect(config.amqpUrl);
  const channel = await connection.createChannel();
  await channel.assertQueue(QUEUE, { durable: true });
  await channel.prefetch(5);
  await channel.consume(QUEUE, (msg) => {
    if (!msg) return;
    onMessage(channel, msg).catch(async (err) => {
      logger.error({ err }, 'dispatch failed');
      await sleep(2_000);
      channel.nack(msg, false, !(err instanceof z.ZodError || err instanceof SyntaxError));
    });
  });
}
