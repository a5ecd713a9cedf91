import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import pg from 'pg';
import { createClient } from 'redis';

const db = new pg.Pool({ statement_timeout: 10_000, query_timeout: 12_000, connectionTimeoutMillis: 5_000 });
const redis = await createClient({ url: process.env.REDIS_URL })
  .on('error', (err) => console.error('redis', err.message))
  .connect();

const LOCK_SECONDS = 30 * 60;
const RUN_MS = 12 * 60 * 1000;
const KEY = 'cron:digest';

const compareAndDelete = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function send(day, user) {
  const res = await fetch(process.env.MAILER_URL, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': `digest:${day}:${user.id}` },
    body: JSON.stringify({ to: user.email, template: 'digest', day }),
    signal: AbortSignal.timeout(8_000),
  });
  if (!res.ok) throw new Error(`mailer: ${res.status}`);
  await db.query(
    'INSERT INTO digests (day, user_id) VALUES ($1, $2) ON CONFLICT (day, user_id) DO NOTHING',
    [day, user.id],
  );
}

async function run() {
  const token = randomUUID();
  const stopAt = Date.now() + RUN_MS;
  const got = await redis.set(KEY, token, {
    condition: 'NX',
    expiration: { type: 'EX', value: LOCK_SECONDS },
  });
  if (got !== 'OK') return;

  const day = new Date().toISOString().slice(0, 10);
  let failed = 0;
  try {
    // What is left over when time is up goes out on the next tick.
    const { rows } = await db.query(
      `SELECT u.id, u.email FROM users u
        WHERE u.digest AND NOT EXISTS (SELECT 1 FROM digests d WHERE d.day = $1 AND d.user_id = u.id)
        ORDER BY u.id LIMIT 5000`,
      [day],
    );
    for (const user of rows) {
      if (Date.now() > stopAt) break;
      try {
        await send(day, user);
      } catch (err) {
        failed += 1;
        console.warn('digest', user.id, err.message);
      }
    }
  } finally {
    await redis.eval(compareAndDelete, { keys: [KEY], arguments: [token] });
  }
  if (failed) console.warn(`digest ${day}: ${failed} will be tried again`);
}

cron.schedule('*/10 6-9 * * *', () => {
  run().catch((err) => console.error('digest run', err));
}, { timezone: 'UTC' });
