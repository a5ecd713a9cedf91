'use strict';

const Queue = require('bull');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const axios = require('axios');
const { Pool } = require('pg');

const LOCK_TTL = 10000;
const PAGE_SIZE = 200;

const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 2 });
redis.on('error', (err) => console.warn('redis', err.message));

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 300,
  retryJitter: 200,
});
redlock.on('clientError', (err) => console.warn('redlock', err.message));

const pool = new Pool({ statement_timeout: 10000 });
const bank = axios.create({ baseURL: process.env.BANK_API, timeout: 30000 });
const imports = new Queue('ledger-import', process.env.QUEUE_URL);

async function fetchEntries(iban, cursor) {
  const entries = [];
  let next = cursor;
  for (;;) {
    const { data } = await bank.get(`/accounts/${iban}/entries`, {
      params: { after: next, limit: PAGE_SIZE },
    });
    entries.push(...data.entries);
    if (data.entries.length === 0) break;
    next = data.entries[data.entries.length - 1].id;
    if (!data.hasMore) break;
  }
  return { entries, next };
}

async function store(accountId, entries, next) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    for (const entry of entries) {
      await db.query(
        'INSERT INTO ledger (account_id, booked_on, amount, text) VALUES ($1, $2, $3, $4)',
        [accountId, entry.bookedOn, entry.amount, entry.text],
      );
    }
    await db.query('UPDATE accounts SET import_cursor = $2 WHERE id = $1', [accountId, next]);
    await db.query('COMMIT');
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

imports.process(3, async (job) => {
  const { accountId } = job.data;
  const lock = await redlock.lock(`locks:ledger:${accountId}`, LOCK_TTL);
  try {
    const { rows } = await pool.query('SELECT iban, import_cursor FROM accounts WHERE id = $1', [accountId]);
    if (rows.length === 0) return { imported: 0 };
    const { entries, next } = await fetchEntries(rows[0].iban, rows[0].import_cursor);
    if (entries.length > 0) await store(accountId, entries, next);
    return { imported: entries.length };
  } finally {
    await lock.unlock().catch((err) => console.warn('unlock', accountId, err.message));
  }
});

imports.on('error', (err) => console.error('queue', err.message));
imports.on('failed', (job, err) => console.error('ledger import', job.id, err));
