import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import { db } from '../db/knex';
import { redis } from '../lib/node-redis';
import { logger } from '../config/logger';

const LEASE_MS = 45_000;
const RENEW_EVERY_MS = 12_000;
const SAFETY_MS = 5_000;
const LOCK_KEY = 'lock:monthly-statements';

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

type Lease = { assertHeld(): void };

async function withLease(work: (lease: Lease) => Promise<void>): Promise<boolean> {
  const token = randomUUID();
  const startedAt = performance.now();
  const reply = await redis.set(LOCK_KEY, token, { NX: true, PX: LEASE_MS });
  if (reply !== 'OK') return false;

  let validUntil = startedAt + LEASE_MS - SAFETY_MS;
  let lost = false;
  const timer = setInterval(async () => {
    const sentAt = performance.now();
    try {
      const renewed = await redis.eval(RENEW, { keys: [LOCK_KEY], arguments: [token, String(LEASE_MS)] });
      if (Number(renewed) === 1) validUntil = sentAt + LEASE_MS - SAFETY_MS;
      else lost = true;
    } catch (err) {
      logger.warn({ err }, 'statement lease renewal failed');
    }
  }, RENEW_EVERY_MS);

  try {
    await work({
      assertHeld() {
        if (lost || performance.now() >= validUntil) throw new Error('statement lease lost');
      },
    });
    return true;
  } finally {
    clearInterval(timer);
    try {
      await redis.eval(RELEASE, { keys: [LOCK_KEY], arguments: [token] });
    } catch (err) {
      logger.warn({ err }, 'statement lease release failed');
    }
  }
}

function previousMonth(now = new Date()) {
  const from = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1, 1));
  const to = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1));
  return { from, to, period: from.toISOString().slice(0, 7) };
}

async function createStatement(accountId: string, period: string, from: Date, to: Date): Promise<void> {
  await db.transaction(async (trx) => {
    const totals = await trx('ledger_entries')
      .where({ account_id: accountId })
      .andWhere('posted_at', '>=', from)
      .andWhere('posted_at', '<', to)
      .sum({ cents: 'amount_cents' })
      .first();

    // statements has a unique index on (account_id, period)
    const inserted = await trx('statements')
      .insert({ account_id: accountId, period, total_cents: totals?.cents ?? 0 })
      .onConflict(['account_id', 'period'])
      .ignore()
      .returning('id');
    if (inserted.length === 0) return;

    await trx('outbox').insert({ topic: 'statement.created', payload: JSON.stringify({ statementId: inserted[0].id }) });
  });
}

async function run(): Promise<void> {
  const { from, to, period } = previousMonth();
  const ran = await withLease(async (lease) => {
    const accounts = await db('accounts')
      .select('id')
      .whereNotExists(db('statements').whereRaw('statements.account_id = accounts.id').andWhere({ period }));
    for (const account of accounts) {
      lease.assertHeld();
      await createStatement(account.id, period, from, to);
    }
    logger.info({ period, count: accounts.length }, 'monthly statements created');
  });
  if (!ran) logger.debug({ period }, 'statements already running elsewhere');
}

// Hourly during the first three days of the month, picks up what is still missing.
cron.schedule(
  '15 * 1-3 * *',
  () => {
    run().catch((err) => logger.error({ err }, 'monthly statements failed'));
  },
  { timezone: 'UTC' },
);
