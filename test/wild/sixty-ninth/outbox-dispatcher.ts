import Redis from 'ioredis';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';
import { Kafka } from 'kafkajs';
import { Pool } from 'pg';
import pino from 'pino';

const log = pino({ name: 'outbox' });
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 4 });
const kafka = new Kafka({ clientId: 'outbox', brokers: (process.env.KAFKA_BROKERS ?? 'localhost:9092').split(',') });
const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });

redis.on('error', (err) => log.warn({ err }, 'redis'));

const redlock = new Redlock([redis], { retryCount: 0, driftFactor: 0.01, automaticExtensionThreshold: 6_000 });
redlock.on('error', (err) => {
  if (!(err instanceof ResourceLockedError)) log.warn({ err }, 'redlock');
});

const LEASE_MS = 20_000;
const BATCH = 100;

async function isContention(err: unknown): Promise<boolean> {
  if (!(err instanceof ExecutionError)) return false;
  const attempts = await Promise.all(err.attempts);
  return attempts.every((a) => [...a.votesAgainst.values()].every((v) => v instanceof ResourceLockedError));
}

/**
 * Sends one batch. The rows stay locked until they are marked, so a dispatcher that comes on top
 * of another waits here and then sees the rows as published. Delivery is at least once, consumers
 * drop repeats by the `event-id` header.
 */
async function dispatchBatch(): Promise<number> {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    const { rows } = await db.query(
      `SELECT id, topic, aggregate_id, payload FROM outbox
        WHERE published_at IS NULL ORDER BY id LIMIT $1 FOR UPDATE`,
      [BATCH],
    );
    if (rows.length) {
      for (const row of rows) {
        await producer.send({
          topic: row.topic,
          acks: -1,
          messages: [
            { key: row.aggregate_id, value: JSON.stringify(row.payload), headers: { 'event-id': String(row.id) } },
          ],
        });
      }
      await db.query('UPDATE outbox SET published_at = now() WHERE id = ANY($1::bigint[])', [rows.map((r) => r.id)]);
    }
    await db.query('COMMIT');
    return rows.length;
  } catch (err) {
    await db.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    db.release();
  }
}

export async function drainOnce(): Promise<number> {
  let started = false;
  let sent = 0;
  try {
    await redlock.using(['outbox:dispatch'], LEASE_MS, async (signal) => {
      started = true;
      for (;;) {
        if (signal.aborted) throw signal.error ?? new Error('dispatch lease lost');
        const n = await dispatchBatch();
        sent += n;
        if (n < BATCH) return;
      }
    });
  } catch (err) {
    if (!started && (await isContention(err))) return 0;
    log.error({ err, sent }, 'outbox drain interrupted');
  }
  return sent;
}

let stopping = false;

async function main() {
  await producer.connect();
  while (!stopping) {
    const sent = await drainOnce();
    if (sent) log.info({ sent }, 'outbox drained');
    await new Promise((r) => setTimeout(r, 1_000));
  }
  await producer.disconnect();
  await pool.end();
  await redis.quit();
}

process.once('SIGTERM', () => {
  stopping = true;
});

main().catch((err) => {
  log.fatal({ err }, 'outbox dispatcher died');
  process.exit(1);
});
