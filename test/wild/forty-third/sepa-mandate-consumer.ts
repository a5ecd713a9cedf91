import Redis from 'ioredis';
import { Kafka, logLevel, type EachMessagePayload } from 'kafkajs';
import { Pool } from 'pg';

/**
 * Consumes direct debit collections (pain.008 entries, one per message) and books them.
 * The topic is at-least-once and the upstream re-publishes whole files after an incident,
 * so every end-to-end id is booked once per seven days, whichever partition it arrives on.
 */
const SEEN_SECONDS = 7 * 24 * 3600;

const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 3 });
const pool = new Pool({ connectionString: process.env.CORE_DSN, statement_timeout: 5_000 });
const kafka = new Kafka({
  clientId: 'sepa-collections',
  brokers: (process.env.KAFKA_BROKERS ?? '').split(','),
  logLevel: logLevel.WARN,
});

interface Collection {
  endToEndId: string;
  mandateId: string;
  debtorIban: string;
  cents: number;
  dueDate: string;
}

async function firstSighting(endToEndId: string): Promise<boolean> {
  const reply = await redis.set(`sepa:e2e:${endToEndId}`, new Date().toISOString(), 'EX', SEEN_SECONDS, 'NX');
  return reply === 'OK';
}

async function book(c: Collection): Promise<void> {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    const mandate = await db.query('SELECT creditor_account FROM mandate WHERE id = $1 AND revoked_at IS NULL', [c.mandateId]);
    if (mandate.rowCount === 0) {
      await db.query('INSERT INTO rejected (e2e_id, reason) VALUES ($1, $2)', [c.endToEndId, 'MD01']);
    } else {
      await db.query(
        'INSERT INTO collection (e2e_id, debtor_iban, creditor_account, cents, due_date) VALUES ($1, $2, $3, $4, $5)',
        [c.endToEndId, c.debtorIban, mandate.rows[0].creditor_account, c.cents, c.dueDate],
      );
    }
    await db.query('COMMIT');
  } catch (err) {
    await db.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    db.release();
  }
}

async function onMessage({ topic, partition, message }: EachMessagePayload): Promise<void> {
  const collection = JSON.parse(message.value!.toString('utf8')) as Collection;

  if (!(await firstSighting(collection.endToEndId))) {
    console.info({ e2e: collection.endToEndId, topic, partition, offset: message.offset }, 'duplicate, skipped');
    return;
  }

  try {
    await book(collection);
  } catch (err) {
    // Let kafkajs redeliver: the offset is not committed when the handler throws.
    console.error({ e2e: collection.endToEndId, err }, 'booking failed');
    throw err;
  }
}

export async function run(): Promise<void> {
  const consumer = kafka.consumer({ groupId: 'sepa-collections', retry: { retries: 10 } });
  await consumer.connect();
  await consumer.subscribe({ topic: 'sepa.collections.v2', fromBeginning: false });
  await consumer.run({ eachMessage: onMessage });

  for (const sig of ['SIGTERM', 'SIGINT'] as const) {
    process.once(sig, async () => {
      await consumer.disconnect();
      await Promise.allSettled([redis.quit(), pool.end()]);
    });
  }
}
