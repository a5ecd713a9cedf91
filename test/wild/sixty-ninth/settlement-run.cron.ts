import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import Redis from 'ioredis';
import { Pool } from 'pg';
import cron from 'node-cron';
import pino from 'pino';

const log = pino({ name: 'settlement-run' });
const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
const pool = new Pool({ connectionString: process.env.DATABASE_URL });

redis.on('error', (err) => log.warn({ err }, 'redis connection'));

const LOCK_KEY = 'cron:settlement-run';
const LEASE_MS = 30_000;
const MARGIN_MS = 3_000;

const ACQUIRE = `
local cur = redis.call('GET', KEYS[1])
if cur and cur ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;
const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

class LeaseLostError extends Error {}

class Lease {
  private validUntil = 0;
  private timer?: NodeJS.Timeout;
  private readonly token = randomUUID();

  async acquire(): Promise<boolean> {
    const sentAt = performance.now();
    const ok = await redis.eval(ACQUIRE, 1, LOCK_KEY, this.token, LEASE_MS);
    if (ok !== 1) return false;
    this.validUntil = sentAt + LEASE_MS - MARGIN_MS;
    this.timer = setInterval(() => void this.extend(), LEASE_MS / 3);
    return true;
  }

  private async extend() {
    const sentAt = performance.now();
    try {
      const ok = await redis.eval(EXTEND, 1, LOCK_KEY, this.token, LEASE_MS);
      if (ok === 1) {
        this.validUntil = Math.max(this.validUntil, sentAt + LEASE_MS - MARGIN_MS);
      } else {
        this.validUntil = 0;
        clearInterval(this.timer);
      }
    } catch (err) {
      // keep what is left of the lease, the next beat may get through
      log.warn({ err }, 'lease extension failed');
    }
  }

  assertHeld() {
    if (performance.now() >= this.validUntil) throw new LeaseLostError('settlement lease lost');
  }

  async release() {
    clearInterval(this.timer);
    await redis.eval(RELEASE, 1, LOCK_KEY, this.token).catch((err) => log.warn({ err }, 'lease release failed'));
  }
}

async function settleMerchant(merchantId: string, day: string) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    // unique (merchant_id, settlement_date): a merchant is settled once a day, by any process
    const ins = await db.query(
      `INSERT INTO settlements (merchant_id, settlement_date, status, amount_cents)
       SELECT $1, $2::date, 'pending', COALESCE(SUM(net_cents), 0)
         FROM captures WHERE merchant_id = $1 AND captured_on = $2::date
       ON CONFLICT (merchant_id, settlement_date) DO NOTHING
       RETURNING id, amount_cents`,
      [merchantId, day],
    );
    if (ins.rowCount) {
      await db.query(`INSERT INTO ledger_entries (ref, kind, amount_cents) VALUES ($1, 'settlement', $2)`, [
        ins.rows[0].id,
        ins.rows[0].amount_cents,
      ]);
    }
    await db.query('COMMIT');
    return Boolean(ins.rowCount);
  } catch (err) {
    await db.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    db.release();
  }
}

export async function runSettlement(day: string) {
  const lease = new Lease();
  if (!(await lease.acquire())) {
    log.info({ day }, 'another pod is settling');
    return;
  }
  let done = 0;
  try {
    const { rows } = await pool.query(`SELECT id FROM merchants WHERE active ORDER BY id`);
    for (const { id } of rows) {
      lease.assertHeld();
      if (await settleMerchant(id, day)) done++;
    }
    log.info({ day, done }, 'settlement finished');
  } finally {
    await lease.release();
  }
}

cron.schedule('15 2 * * *', () => {
  const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
  runSettlement(day).catch((err) => log.error({ err, day }, 'settlement run aborted'));
});
