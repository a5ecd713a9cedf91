import Redis from 'ioredis';
import pg from 'pg';
import { CronJob } from 'cron';
import { nanoid } from 'nanoid';
import pino from 'pino';

const log = pino({ name: 'roaming-settlement' });

const nodes = process.env.LEASE_NODES.split(',').map((url) => {
  const node = new Redis(url, {
    commandTimeout: 150,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
  });
  node.on('error', (err) => log.debug({ url, err: err.message }, 'lease node'));
  node.defineCommand('dropLease', {
    numberOfKeys: 1,
    lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
  });
  return node;
});
const QUORUM = Math.floor(nodes.length / 2) + 1;

const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  statement_timeout: 3_000,
  query_timeout: 3_500,
  connectionTimeoutMillis: 2_000,
});

async function takeLease(resource, ttlMs) {
  const value = nanoid();
  const startedAt = Date.now();
  const votes = await Promise.allSettled(nodes.map((n) => n.set(resource, value, 'PX', ttlMs, 'NX')));
  const yes = votes.filter((v) => v.status === 'fulfilled' && v.value === 'OK').length;
  const drift = Math.ceil(ttlMs * 0.01) + 2;
  const validUntil = startedAt + ttlMs - drift;

  const lease = {
    remaining: () => validUntil - Date.now(),
    release: () => Promise.allSettled(nodes.map((n) => n.dropLease(resource, value))),
  };
  if (yes >= QUORUM && lease.remaining() > 0) return lease;
  await lease.release();
  return null;
}

async function settlePartner(partnerId) {
  const client = await pool.connect();
  let broken;
  try {
    await client.query('begin');
    const { rowCount } = await client.query(
      `insert into settlements (session_id, partner_id, wh, cents)
       select s.id, s.partner_id, s.wh, round(s.wh * p.cents_per_kwh / 1000.0)
         from charging_sessions s join partners p on p.id = s.partner_id
        where s.partner_id = $1 and s.ended_at < now() - interval '15 minutes' and not s.settled
        limit 2000
       on conflict (session_id) do nothing`,
      [partnerId],
    );
    await client.query(
      `update charging_sessions s set settled = true
         from settlements t where t.session_id = s.id and s.partner_id = $1 and not s.settled`,
      [partnerId],
    );
    await client.query('commit');
    return rowCount;
  } catch (err) {
    broken = err; // hand the connection back as unusable, the server rolls back
    throw err;
  } finally {
    client.release(broken);
  }
}

async function run() {
  const lease = await takeLease('roaming:settlement', 90_000);
  if (!lease) return;
  try {
    const { rows } = await pool.query('select id from partners where active order by last_settled nulls first');
    for (const { id } of rows) {
      // worst case for one partner: two connections and five statements, 22 s
      if (lease.remaining() < 30_000) {
        log.info('time is up, the rest comes with the next run');
        break;
      }
      const settled = await settlePartner(id);
      await pool.query('update partners set last_settled = now() where id = $1', [id]);
      log.info({ partner: id, settled }, 'settled');
    }
  } finally {
    await lease.release();
  }
}

CronJob.from({
  cronTime: '0 */10 * * * *',
  onTick: () => run().catch((err) => log.error({ err }, 'settlement run failed')),
  start: true,
});
