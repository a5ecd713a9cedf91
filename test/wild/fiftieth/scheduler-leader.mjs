import { randomUUID } from 'node:crypto';
import axios from 'axios';
import Redis from 'ioredis';
import pg from 'pg';

const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 1, commandTimeout: 2000 });
redis.on('error', (err) => console.error('redis:', err.message));
const pool = new pg.Pool({ statement_timeout: 4000 });

const KEY = 'reminders:leader';
const TTL = 12_000;
const me = `${process.env.HOSTNAME}-${randomUUID()}`;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const DROP = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

let leader = false;

async function heartbeat() {
  if (!leader) {
    const res = await redis.set(KEY, me, 'PX', TTL, 'NX');
    if (res === 'OK') {
      leader = true;
      console.log(`${me} is now the leader`);
    }
    return;
  }
  const extended = await redis.eval(EXTEND, 1, KEY, me, TTL);
  if (extended !== 1) {
    console.warn('leader lease was not extended');
  }
}

async function sendDueReminders() {
  const { rows } = await pool.query(
    `SELECT id, phone, text FROM reminders
      WHERE due_at <= now() AND sent_at IS NULL
      ORDER BY due_at LIMIT 100`,
  );
  for (const r of rows) {
    if (!leader) return;
    await axios.post(`${process.env.SMS_URL}/messages`, { to: r.phone, text: r.text }, { timeout: 5000 });
    await pool.query('UPDATE reminders SET sent_at = now() WHERE id = $1', [r.id]);
  }
}

const beat = setInterval(() => {
  heartbeat().catch((err) => console.error('heartbeat:', err.message));
}, TTL / 4);

let busy = false;
const work = setInterval(async () => {
  if (!leader || busy) return;
  busy = true;
  try {
    await sendDueReminders();
  } catch (err) {
    console.error('reminders:', err.message);
  } finally {
    busy = false;
  }
}, 2000);

async function shutdown() {
  clearInterval(beat);
  clearInterval(work);
  leader = false;
  while (busy) await new Promise((r) => setTimeout(r, 100));
  await redis.eval(DROP, 1, KEY, me).catch(() => {});
  redis.disconnect();
  await pool.end();
}

process.once('SIGTERM', shutdown);
process.once('SIGINT', shutdown);
