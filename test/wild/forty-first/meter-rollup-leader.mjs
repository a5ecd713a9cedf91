import os from 'node:os';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import pg from 'pg';
import pino from 'pino';

const log = pino({ name: 'meter-rollup' });
const redis = new Redis(process.env.REDIS_URL);
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 10_000 });

const KEY = 'meters:leader';
const ME = `${os.hostname()}-${randomUUID()}`;
const LEASE_MS = 15_000;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

let isLeader = false;

const heartbeat = setInterval(async () => {
  try {
    if (isLeader) {
      await redis.eval(RENEW, 1, KEY, ME, LEASE_MS);
      return;
    }
    const ok = await redis.set(KEY, ME, 'PX', LEASE_MS, 'NX');
    if (ok === 'OK') {
      isLeader = true;
      log.info({ me: ME }, 'became leader');
    }
  } catch (err) {
    log.warn({ err }, 'heartbeat');
  }
}, LEASE_MS / 3);

// adds the readings since the last run to the running total of every household
async function rollup() {
  const db = await pool.connect();
  try {
    await db.query('begin');
    // whole minutes, and never the current one, readings may still be coming in for it
    const cur = await db.query(
      `select upto, date_trunc('minute', now() - interval '1 minute') as until from rollup_cursor where name = 'meters'`,
    );
    const { upto, until } = cur.rows[0];
    const { rows } = await db.query(
      `select household_id, sum(wh) as wh from readings
        where received_at >= $1 and received_at < $2
        group by household_id order by household_id`,
      [upto, until],
    );
    for (const r of rows) {
      await db.query('update households set total_wh = total_wh + $2 where id = $1', [r.household_id, r.wh]);
    }
    await db.query(`update rollup_cursor set upto = $1 where name = 'meters'`, [until]);
    await db.query('commit');
    if (rows.length) log.info({ households: rows.length }, 'rolled up');
  } catch (err) {
    await db.query('rollback').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

let running = true;
process.once('SIGTERM', () => {
  running = false;
});

while (running) {
  if (isLeader) await rollup().catch((err) => log.error({ err }, 'rollup failed'));
  await sleep(2_000);
}

clearInterval(heartbeat);
await redis.eval(RESIGN, 1, KEY, ME).catch(() => {});
await Promise.all([redis.quit(), pool.end()]);
