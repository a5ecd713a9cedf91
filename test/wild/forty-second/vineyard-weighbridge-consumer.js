'use strict';

const amqp = require('amqplib');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');
const { setTimeout: sleep } = require('node:timers/promises');

const QUEUE = 'weighbridge.loads';
const CHUNK = 50;

// One chunk: pool wait 3s, two queries 4s each, one http call 8s -> 19s at most.
const LOCK_MS = 40_000;
const HTTP_MS = 8_000;

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2_000 });
const redlock = new Redlock([redis], { retryCount: 3, retryDelay: 400, retryJitter: 200 });
redlock.on('clientError', (err) => console.warn('redlock client', err.message));

const pool = new Pool({ connectionTimeoutMillis: 3_000, statement_timeout: 4_000, query_timeout: 4_000 });

// loads carry our id, the coop upserts on it
async function postChunk(growerId, loads) {
  const res = await fetch(`${process.env.COOP_URL}/growers/${growerId}/deliveries`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ loads }),
    signal: AbortSignal.timeout(HTTP_MS),
  });
  if (!res.ok) throw new Error(`coop api ${res.status}`);
}

async function nextChunk(db, growerId) {
  const { rows } = await db.query(
    'SELECT id, kg, brix, weighed_at FROM loads WHERE grower_id = $1 AND reported_at IS NULL ORDER BY id LIMIT $2',
    [growerId, CHUNK],
  );
  return rows;
}

async function reportGrower(growerId, lock) {
  let total = 0;
  for (;;) {
    // full lease before every chunk, rejects when somebody else has it by now
    if (total > 0) await lock.extend(LOCK_MS);
    const db = await pool.connect();
    let broken;
    try {
      const loads = await nextChunk(db, growerId);
      if (loads.length === 0) return total;
      await postChunk(growerId, loads);
      await db.query('UPDATE loads SET reported_at = now() WHERE id = ANY($1)', [loads.map((l) => l.id)]);
      total += loads.length;
    } catch (err) {
      broken = err;
      throw err;
    } finally {
      db.release(broken);
    }
  }
}

async function onMessage(ch, msg) {
  const { growerId } = JSON.parse(msg.content.toString());
  let lock;
  try {
    lock = await redlock.lock(`weighbridge:grower:${growerId}`, LOCK_MS);
  } catch (err) {
    if (err.name !== 'LockError') throw err;
    await sleep(1_500);
    ch.nack(msg, false, true);
    return;
  }

  try {
    const n = await reportGrower(growerId, lock);
    console.log(`grower ${growerId}: ${n} loads reported`);
    ch.ack(msg);
  } finally {
    await lock.unlock().catch((err) => console.warn('unlock', growerId, err.message));
  }
}

async function main() {
  const conn = await amqp.connect(process.env.AMQP_URL);
  const ch = await conn.createChannel();
  await ch.assertQueue(QUEUE, { durable: true, deadLetterExchange: 'weighbridge.dlx' });
  await ch.prefetch(5);
  await ch.consume(QUEUE, (msg) => {
    if (!msg) return;
    onMessage(ch, msg).catch((err) => {
      console.error('load message failed', err);
      ch.nack(msg, false, false);
    });
  });
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
