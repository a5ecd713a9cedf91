import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';
import os from 'node:os';
import pg from 'pg';

const STREAM = 'ledger:events';
const GROUP = 'ledger';
const CONSUMER = `${os.hostname()}-${process.pid}`;

const redis = createClient({ url: process.env.REDIS_URL });
const blocking = redis.duplicate();
redis.on('error', (e) => console.error(e.message));
blocking.on('error', (e) => console.error(e.message));
const pool = new pg.Pool({ statement_timeout: 5000 });

const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

async function applyEvent(id, event) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    const seen = await db.query('INSERT INTO applied_events (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    if (seen.rowCount === 1) {
      const { rows } = await db.query('SELECT balance FROM accounts WHERE id = $1', [event.account]);
      await db.query('UPDATE accounts SET balance = $2 WHERE id = $1', [
        event.account,
        Number(rows[0].balance) + Number(event.amount),
      ]);
    }
    await db.query('COMMIT');
  } catch (err) {
    await db.query('ROLLBACK');
    throw err;
  } finally {
    db.release();
  }
}

async function handle({ id, message }) {
  const key = `lock:account:${message.account}`;
  const token = randomUUID();
  const ok = await redis.set(key, token, { NX: true, PX: 60000 });
  if (!ok) {
    console.log(`account ${message.account} is in work elsewhere, skipping ${id}`);
    await redis.xAck(STREAM, GROUP, id);
    return;
  }
  try {
    await applyEvent(id, message);
    await redis.xAck(STREAM, GROUP, id);
  } catch (err) {
    console.error(`event ${id} stays pending`, err);
  } finally {
    await redis.eval(UNLOCK, { keys: [key], arguments: [token] });
  }
}

async function main() {
  await Promise.all([redis.connect(), blocking.connect()]);
  await redis.xGroupCreate(STREAM, GROUP, '0', { MKSTREAM: true }).catch((e) => {
    if (!e.message.includes('BUSYGROUP')) throw e;
  });

  for (;;) {
    const stale = await redis.xAutoClaim(STREAM, GROUP, CONSUMER, 120000, '0-0', { COUNT: 10 });
    for (const entry of stale.messages.filter(Boolean)) await handle(entry);

    const batch = await blocking.xReadGroup(GROUP, CONSUMER, { key: STREAM, id: '>' }, { COUNT: 20, BLOCK: 5000 });
    for (const entry of batch?.[0]?.messages ?? []) await handle(entry);
  }
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
