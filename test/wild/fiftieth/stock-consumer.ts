import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import Redis from 'ioredis';
import { Kafka, logLevel } from 'kafkajs';
import { Pool } from 'pg';

const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 1, commandTimeout: 2_000 });
redis.on('error', (e) => console.error('redis:', e.message));

const pool = new Pool({
  connectionTimeoutMillis: 3_000,
  statement_timeout: 3_000,
  idle_in_transaction_session_timeout: 8_000,
});

const RELEASE_LUA = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

class SkuLock implements AsyncDisposable {
  private constructor(private readonly key: string, private readonly token: string) {}

  static async take(sku: string, ttlMs = 30_000, waitMs = 4_000): Promise<SkuLock> {
    const key = `stock:lock:${sku}`;
    const token = randomUUID();
    const until = Date.now() + waitMs;
    do {
      if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK') return new SkuLock(key, token);
      await delay(40 + Math.random() * 80);
    } while (Date.now() < until);
    throw new Error(`sku ${sku} is busy`);
  }

  async [Symbol.asyncDispose]() {
    try {
      await redis.eval(RELEASE_LUA, 1, this.key, this.token);
    } catch (e) {
      console.warn('could not release', this.key, (e as Error).message);
    }
  }
}

interface Movement {
  eventId: string;
  sku: string;
  delta: number;
}

async function apply(m: Movement): Promise<void> {
  await using _lock = await SkuLock.take(m.sku);

  const db = await pool.connect();
  let broken: Error | undefined;
  try {
    await db.query('BEGIN');
    const first = await db.query('INSERT INTO seen_events (id) VALUES ($1) ON CONFLICT DO NOTHING', [m.eventId]);
    if (first.rowCount === 0) {
      await db.query('ROLLBACK');
      return;
    }
    const { rows } = await db.query('SELECT on_hand, version FROM stock WHERE sku = $1', [m.sku]);
    if (rows.length === 0) throw new Error(`no stock row for ${m.sku}`);

    const onHand = Math.max(0, rows[0].on_hand + m.delta);
    const upd = await db.query(
      'UPDATE stock SET on_hand = $1, version = version + 1 WHERE sku = $2 AND version = $3',
      [onHand, m.sku, rows[0].version],
    );
    if (upd.rowCount !== 1) throw new Error(`stock row ${m.sku} was changed concurrently`);
    await db.query('COMMIT');
  } catch (e) {
    await db.query('ROLLBACK').catch((re) => { broken = re; });
    throw e;
  } finally {
    db.release(broken);
  }
}

const kafka = new Kafka({ clientId: 'stock', brokers: process.env.KAFKA_BROKERS!.split(','), logLevel: logLevel.WARN });
const consumer = kafka.consumer({ groupId: 'stock-movements', sessionTimeout: 45_000, retry: { retries: 8 } });

export async function start() {
  await consumer.connect();
  await consumer.subscribe({ topics: ['warehouse.movements', 'shop.returns'] });
  await consumer.run({
    eachMessage: async ({ message }) => {
      if (!message.value) return;
      await apply(JSON.parse(message.value.toString()) as Movement);
    },
  });
}
