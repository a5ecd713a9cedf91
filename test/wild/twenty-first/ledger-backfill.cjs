'use strict';

const { randomBytes } = require('node:crypto');
const { createClient } = require('redis');

const TTL = 60_000;
const SAFETY = 5_000;
const STATEMENT_MAX = 4_000;
const PAGE_NEEDS = 20_000; // three statements and a commit
const PAGE = 500;

const EXTEND =
  'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end';
const RELEASE =
  'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

let connecting;
function redis() {
  connecting ??= createClient({ url: process.env.REDIS_URL })
    .on('error', (err) => console.error('redis', err.message))
    .connect();
  return connecting;
}

/** @returns {Promise<{key: string, token: string, until: number} | null>} */
async function acquire(name) {
  const client = await redis();
  const key = `lock:${name}`;
  const token = randomBytes(16).toString('hex');
  const t0 = performance.now();
  const reply = await client.set(key, token, { NX: true, PX: TTL });
  return reply === 'OK' ? { key, token, until: t0 + TTL - SAFETY } : null;
}

const left = (lock) => lock.until - performance.now();

/** True when the lock is ours for `needMs` more; prolongs it when it is not. */
async function keep(lock, needMs) {
  if (left(lock) >= needMs) return true;
  const client = await redis();
  const t0 = performance.now();
  const reply = await client.eval(EXTEND, { keys: [lock.key], arguments: [lock.token, String(TTL)] });
  if (reply !== 1) return false;
  lock.until = t0 + TTL - SAFETY;
  return left(lock) >= needMs;
}

async function release(lock) {
  const client = await redis();
  await client.eval(RELEASE, { keys: [lock.key], arguments: [lock.token] });
}

/**
 * Converts ledger amounts from euros to cents, page by page. Not idempotent per
 * row, hence one runner at a time.
 *
 * @param db has tx(fn): BEGIN, fn(query), COMMIT, or ROLLBACK when fn throws
 */
async function backfill(db) {
  const lock = await acquire('ledger-backfill');
  if (!lock) return { started: false };

  let pages = 0;
  try {
    for (;;) {
      const more = await db.tx(async (query) => {
        // The database ends whatever outlives its share, even if we are frozen meanwhile.
        await query(`SET LOCAL statement_timeout = ${STATEMENT_MAX}`);
        await query(`SET LOCAL idle_in_transaction_session_timeout = ${STATEMENT_MAX}`);

        if (!(await keep(lock, PAGE_NEEDS))) throw new Error('lock lost, stopping');

        const rows = await query(
          `SELECT id FROM ledger WHERE id > (SELECT last_id FROM backfill_cursor) ORDER BY id LIMIT ${PAGE}`,
        );
        if (rows.length === 0) return false;
        const last = rows[rows.length - 1].id;
        await query(
          'UPDATE ledger SET amount = amount * 100 WHERE id > (SELECT last_id FROM backfill_cursor) AND id <= $1',
          [last],
        );
        await query('UPDATE backfill_cursor SET last_id = $1', [last]);

        if (left(lock) <= 0) throw new Error('page took too long, rolling back');
        return true;
      });
      if (!more) return { started: true, pages };
      pages += 1;
    }
  } finally {
    await release(lock).catch((err) => console.warn('release:', err.message));
  }
}

module.exports = { acquire, keep, release, backfill };
