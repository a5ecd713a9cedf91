import { createClient } from 'redis';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import pg from 'pg';

const STREAM = 'bikes:dock-events';
const GROUP = 'occupancy';
const CONSUMER = `${hostname()}-${process.pid}`;

const client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
client.on('error', (err) => console.error('redis', err));
const reader = client.duplicate();
reader.on('error', (err) => console.error('redis reader', err));
await Promise.all([client.connect(), reader.connect()]);

const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  query_timeout: 4_000,
  connectionTimeoutMillis: 3_000,
});

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

async function whileHolding(key, ttlMs, fn) {
  const token = randomUUID();
  const ok = await client.set(key, token, { NX: true, PX: ttlMs });
  if (ok !== 'OK') return false;
  try {
    await fn();
    return true;
  } finally {
    await client.eval(UNLOCK, { keys: [key], arguments: [token] });
  }
}

// event ids are unique in dock_event, so a redelivered event changes nothing
async function apply(id, { dock, bike, kind }) {
  await pool.query(
    `WITH fresh AS (
       INSERT INTO dock_event (id, dock, bike, kind) VALUES ($1, $2, $3, $4)
       ON CONFLICT (id) DO NOTHING RETURNING dock
     )
     UPDATE dock SET bikes = bikes + $5 WHERE id IN (SELECT dock FROM fresh)`,
    [id, dock, bike, kind, kind === 'returned' ? 1 : -1],
  );
}

async function handle({ id, message }) {
  try {
    const done = await whileHolding(`bikes:dock:${message.dock}`, 30_000, () => apply(id, message));
    if (!done) console.info('dock %s is in use by another consumer', message.dock);
    await client.xAck(STREAM, GROUP, id);
  } catch (err) {
    // stays pending, reclaim() gets it later
    console.error('event %s failed', id, err);
  }
}

async function reclaim() {
  const { messages } = await client.xAutoClaim(STREAM, GROUP, CONSUMER, 60_000, '0-0', { COUNT: 50 });
  for (const entry of messages) if (entry) await handle(entry);
}

await client.xGroupCreate(STREAM, GROUP, '0', { MKSTREAM: true }).catch((err) => {
  if (!String(err.message).startsWith('BUSYGROUP')) throw err;
});

let running = true;
process.once('SIGTERM', () => {
  running = false;
});

while (running) {
  await reclaim();
  const batches = await reader.xReadGroup(GROUP, CONSUMER, { key: STREAM, id: '>' }, { COUNT: 20, BLOCK: 5_000 });
  for (const batch of batches ?? []) {
    for (const entry of batch.messages) await handle(entry);
  }
}

await pool.end();
process.exit(0);
