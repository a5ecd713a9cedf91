'use strict';

require('dotenv').config();

const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');
const axios = require('axios');
const { chunk } = require('lodash');
const pino = require('pino');

const log = pino({ name: 'partner-export' });

const LOCK_TTL = Number(process.env.EXPORT_LOCK_TTL_MS || 10000);
const CHUNK = Number(process.env.EXPORT_CHUNK || 200);

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const redlock = new Redlock([new Redis(process.env.REDIS_URL)], {
  driftFactor: 0.01,
  retryCount: 0,
});
redlock.on('clientError', (err) => log.warn({ err }, 'redis error'));

// The partner takes each chunk in 20 to 40 seconds and books it as it comes in.
const partner = axios.create({
  baseURL: process.env.PARTNER_URL,
  timeout: 90000,
  headers: { 'x-api-key': process.env.PARTNER_KEY },
});

async function pendingJournal(tenantId) {
  const { rows } = await pool.query(
    `SELECT id, account, amount_cents, booked_on
       FROM journal_lines
      WHERE tenant_id = $1 AND exported_at IS NULL
      ORDER BY id`,
    [tenantId],
  );
  return rows;
}

async function sendChunk(tenantId, lines) {
  const { data } = await partner.post(`/tenants/${tenantId}/postings`, {
    lines: lines.map((l) => ({ account: l.account, amount: l.amount_cents / 100, date: l.booked_on })),
  });
  await pool.query('UPDATE journal_lines SET exported_at = now(), partner_ref = $2 WHERE id = ANY($1)', [
    lines.map((l) => l.id),
    data.batchRef,
  ]);
}

async function exportTenant(tenantId) {
  let lock;
  try {
    lock = await redlock.lock(`locks:partner-export:${tenantId}`, LOCK_TTL);
  } catch (err) {
    if (err.name !== 'LockError') throw err;
    log.info({ tenantId }, 'export is running on another worker');
    return { tenantId, sent: 0, skipped: true };
  }

  try {
    const journal = await pendingJournal(tenantId);
    let sent = 0;
    for (const lines of chunk(journal, CHUNK)) {
      await sendChunk(tenantId, lines);
      sent += lines.length;
      log.info({ tenantId, sent, of: journal.length }, 'chunk accepted');
    }
    return { tenantId, sent, skipped: false };
  } finally {
    await lock.unlock().catch((err) => log.warn({ err, tenantId }, 'unlock failed'));
  }
}

module.exports = { exportTenant };
