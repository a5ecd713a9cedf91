import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Kafka } from 'kafkajs';
import pg from 'pg';
import pino from 'pino';
import { createClient } from 'redis';

const log = pino({ name: 'price-list-publisher' });
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 8_000 });
const s3 = new S3Client({ maxAttempts: 2 });

const TTL_MS = 45_000;
const NODE_TIMEOUT_MS = 300;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

// Three independent instances, one per zone.
const nodes = process.env.LOCK_NODES.split(',').map((url) => {
  const client = createClient({ url, disableOfflineQueue: true, socket: { connectTimeout: 1_000 } });
  client.on('error', (err) => log.warn({ url, err: err.message }, 'lock node'));
  client.connect().catch((err) => log.warn({ url, err: err.message }, 'lock node connect'));
  return client;
});
const QUORUM = Math.floor(nodes.length / 2) + 1;

function within(promise, ms) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

async function releaseEverywhere(key, token) {
  await Promise.allSettled(
    nodes.map((n) => within(n.eval(RELEASE, { keys: [key], arguments: [token] }), NODE_TIMEOUT_MS)),
  );
}

async function acquire(key) {
  const token = randomBytes(18).toString('base64url');
  for (let attempt = 1; attempt <= 8; attempt++) {
    const startedAt = performance.now();
    const answers = await Promise.allSettled(
      nodes.map((n) => within(n.set(key, token, { NX: true, PX: TTL_MS }), NODE_TIMEOUT_MS)),
    );
    const granted = answers.filter((a) => a.status === 'fulfilled').length;
    const validUntil = startedAt + TTL_MS - Math.ceil(TTL_MS * 0.01) - 2;

    if (granted >= QUORUM && performance.now() < validUntil) {
      return {
        isValid: () => performance.now() < validUntil,
        release: () => releaseEverywhere(key, token),
      };
    }
    log.debug({ key, attempt, granted }, 'no quorum');
    await releaseEverywhere(key, token);
    await sleep(150 * attempt + Math.random() * 250);
  }
  throw new Error(`price list ${key} is locked`);
}

async function publish(priceListId) {
  const lock = await acquire(`price-list:${priceListId}`);
  try {
    const { rows: [list] } = await pool.query('SELECT code, published_revision FROM price_lists WHERE id = $1', [priceListId]);
    if (!list) return log.warn({ priceListId }, 'price list is gone');

    const { rows: prices } = await pool.query(
      'SELECT sku, net_cents, valid_from FROM prices WHERE price_list_id = $1 AND approved ORDER BY sku',
      [priceListId],
    );
    const revision = list.published_revision + 1;
    await s3.send(
      new PutObjectCommand({
        Bucket: process.env.PRICE_BUCKET,
        Key: `${list.code}/${revision}.json`,
        ContentType: 'application/json',
        Body: JSON.stringify({ revision, prices }),
      }),
      { abortSignal: AbortSignal.timeout(15_000) },
    );

    // Shops poll the revision, so nothing is visible before this.
    if (!lock.isValid()) throw new Error('publishing took too long');
    await pool.query('UPDATE price_lists SET published_revision = $1, published_at = now() WHERE id = $2', [revision, priceListId]);
    log.info({ priceListId, revision, count: prices.length }, 'published');
  } finally {
    await lock.release();
  }
}

const kafka = new Kafka({ clientId: 'price-list-publisher', brokers: process.env.KAFKA_BROKERS.split(',') });
const consumer = kafka.consumer({ groupId: 'price-list-publisher', sessionTimeout: 90_000 });

await consumer.connect();
await consumer.subscribe({ topics: ['prices.approved', 'prices.corrected'] });
await consumer.run({
  partitionsConsumedConcurrently: 3,
  eachMessage: async ({ message }) => {
    const { priceListId } = JSON.parse(message.value.toString());
    await publish(priceListId);
  },
});
