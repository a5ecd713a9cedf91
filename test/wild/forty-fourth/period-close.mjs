#!/usr/bin/env node
// Closes an accounting period. Usage: period-close.mjs <company> <yyyy-mm>
import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import pg from 'pg';

const TTL_MS = 60_000;
const NODE_TIMEOUT_MS = 250;
const ATTEMPTS = 6;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const nodes = (process.env.LOCK_NODES ?? '').split(',').map((url) => {
  const node = new Redis(url, {
    commandTimeout: NODE_TIMEOUT_MS,
    connectTimeout: 1_000,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
  });
  node.on('error', (err) => console.warn(`lock node ${url}: ${err.message}`));
  return node;
});
const QUORUM = Math.floor(nodes.length / 2) + 1;

async function releaseAll(key, token) {
  await Promise.allSettled(nodes.map((n) => n.eval(RELEASE, 1, key, token)));
}

async function lock(key) {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const token = randomBytes(16).toString('hex');
    const startedAt = performance.now();
    const replies = await Promise.allSettled(nodes.map((n) => n.set(key, token, 'PX', TTL_MS, 'NX')));
    const granted = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
    const drift = TTL_MS * 0.01 + 2;
    const validUntil = startedAt + TTL_MS - drift;

    if (granted >= QUORUM && performance.now() < validUntil) {
      return {
        remaining: () => validUntil - performance.now(),
        release: () => releaseAll(key, token),
      };
    }
    await releaseAll(key, token);
    await sleep(200 * attempt + Math.random() * 300);
  }
  return null;
}

async function closePeriod(db, company, period, held) {
  await db.query('BEGIN');
  try {
    await db.query(`SET LOCAL statement_timeout = '10s'`);
    // The trigger on journal_entries takes this row FOR SHARE and refuses closed periods.
    const { rows } = await db.query(
      'SELECT status FROM periods WHERE company_id = $1 AND period = $2 FOR UPDATE',
      [company, period],
    );
    if (rows.length === 0) throw new Error(`no period ${period} for ${company}`);
    if (rows[0].status === 'closed') {
      await db.query('ROLLBACK');
      return 'already closed';
    }

    const drafts = await db.query(
      `SELECT count(*)::int AS n FROM journal_entries WHERE company_id = $1 AND period = $2 AND status = 'draft'`,
      [company, period],
    );
    if (drafts.rows[0].n > 0) throw new Error(`${drafts.rows[0].n} draft entries left`);

    await db.query(
      `INSERT INTO period_balances (company_id, period, account, balance)
       SELECT company_id, period, account, sum(debit - credit) FROM journal_entries
        WHERE company_id = $1 AND period = $2 GROUP BY company_id, period, account`,
      [company, period],
    );
    await db.query(
      `UPDATE periods SET status = 'closed', closed_at = now() WHERE company_id = $1 AND period = $2 AND status = 'open'`,
      [company, period],
    );

    if (held.remaining() < 2_000) throw new Error('lock validity used up, rolling back');
    await db.query('COMMIT');
    return 'closed';
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  }
}

const [company, period] = process.argv.slice(2);
if (!company || !/^\d{4}-\d{2}$/.test(period ?? '')) {
  console.error('usage: period-close.mjs <company> <yyyy-mm>');
  process.exit(2);
}

const db = new pg.Client({ connectionString: process.env.DATABASE_URL });
await db.connect();
// Posting runs and re-valuations of the company take the same lock.
const held = await lock(`ledger:company:${company}`);
try {
  if (!held) throw new Error(`ledger of ${company} is busy, try later`);
  console.log(`${company} ${period}: ${await closePeriod(db, company, period, held)}`);
} catch (err) {
  console.error(err.message);
  process.exitCode = 1;
} finally {
  await held?.release();
  await db.end();
  nodes.forEach((n) => n.disconnect());
}
