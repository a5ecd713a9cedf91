// Nightly invoicing. Started by the k8s CronJob "invoice-run" (concurrencyPolicy: Allow,
// because of the second region), so the run itself has to make sure it is alone.
import { randomBytes } from 'node:crypto';
import process from 'node:process';
import { createClient } from 'redis';
import pg from 'pg';
import pino from 'pino';

const log = pino({ name: 'invoice-run' });

const LOCK_KEY = 'billing:invoice-run';
const LOCK_TTL = 45_000;
const RENEW_EVERY = 12_000;

const RENEW = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return 0`;

const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0`;

class RunLock {
  constructor(client) {
    this.client = client;
    this.token = randomBytes(18).toString('base64url');
    this.validUntil = 0;
    this.lost = false;
    this.timer = null;
  }

  async acquire() {
    const asked = performance.now();
    const res = await this.client.set(LOCK_KEY, this.token, { NX: true, PX: LOCK_TTL });
    if (res !== 'OK') return false;
    this.validUntil = asked + LOCK_TTL;
    this.timer = setInterval(() => this.renew(), RENEW_EVERY);
    return true;
  }

  async renew() {
    const asked = performance.now();
    try {
      const ok = await this.client.eval(RENEW, {
        keys: [LOCK_KEY],
        arguments: [this.token, String(LOCK_TTL)],
      });
      if (ok === 1) this.validUntil = Math.max(this.validUntil, asked + LOCK_TTL);
      else this.lost = true;
    } catch (err) {
      // One missed beat is fine, held() runs out of validity by itself.
      log.warn({ err }, 'renewal failed');
    }
  }

  held() {
    return !this.lost && performance.now() < this.validUntil - 5_000;
  }

  async release() {
    clearInterval(this.timer);
    await this.client.eval(RELEASE, { keys: [LOCK_KEY], arguments: [this.token] });
  }
}

async function invoiceSubscription(db, sub, period) {
  // uq_invoices_subscription_period makes a second insert for the same month a no-op.
  const { rowCount } = await db.query(
    `INSERT INTO invoices (subscription_id, period, amount_cents, currency, status)
     VALUES ($1, $2, $3, $4, 'open')
     ON CONFLICT (subscription_id, period) DO NOTHING`,
    [sub.id, period, sub.price_cents * sub.seats, sub.currency],
  );
  return rowCount === 1;
}

async function main() {
  const period = process.argv[2] ?? new Date().toISOString().slice(0, 7);
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => log.error({ err }, 'redis'));
  await client.connect();
  const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 2, statement_timeout: 10_000 });
  db.on('error', (err) => log.error({ err }, 'postgres'));

  const lock = new RunLock(client);
  let created = 0;
  try {
    if (!(await lock.acquire())) {
      log.info({ period }, 'another run is active, leaving');
      return;
    }
    try {
      let cursor = '00000000-0000-0000-0000-000000000000';
      for (;;) {
        const { rows } = await db.query(
          `SELECT id, price_cents, seats, currency FROM subscriptions
            WHERE status = 'active' AND id > $1 ORDER BY id LIMIT 200`,
          [cursor],
        );
        if (rows.length === 0) break;
        for (const sub of rows) {
          if (!lock.held()) throw new Error(`run lock lost at subscription ${sub.id}`);
          if (await invoiceSubscription(db, sub, period)) created += 1;
        }
        cursor = rows[rows.length - 1].id;
      }
      log.info({ period, created }, 'invoice run complete');
    } finally {
      await lock.release().catch((err) => log.warn({ err }, 'release failed, lock will expire'));
    }
  } finally {
    await db.end();
    await client.quit().catch(() => {});
  }
}

main().catch((err) => {
  log.fatal({ err }, 'invoice run failed');
  process.exitCode = 1;
});
