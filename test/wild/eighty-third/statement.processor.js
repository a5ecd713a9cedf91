const { Worker, DelayedError } = require('bullmq');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');

const connection = { host: process.env.QUEUE_HOST, port: 6379 };
const redlock = new Redlock([new Redis(process.env.LOCK_REDIS_URL)], { retryCount: 2, retryDelay: 200 });
redlock.on('clientError', (err) => console.error('lock redis', err.message));

const pool = new Pool({ connectionTimeoutMillis: 3000, statement_timeout: 10000, query_timeout: 12000 });
pool.on('error', (err) => console.error('postgres', err.message));
const TTL = 60000;
const PAGE = 2000;

async function copyPage(account, month, after) {
  const { rows } = await pool.query(
    `with page as (
       select id, amount, booked_at from ledger_entries
        where account_id = $1 and date_trunc('month', booked_at) = $2 and id > $3
        order by id limit ${PAGE}),
     ins as (
       insert into statement_lines (account_id, month, entry_id, amount, booked_at)
       select $1, $2, id, amount, booked_at from page
       on conflict (account_id, month, entry_id) do nothing)
     select max(id) as last, count(*)::int as n from page`,
    [account, month, after],
  );
  return rows[0];
}

async function build(job, token) {
  const { account, month } = job.data;
  let lock;
  try {
    lock = await redlock.lock(`locks:statement:${account}:${month}`, TTL);
  } catch (err) {
    if (!(err instanceof Redlock.LockError)) throw err;
    await job.moveToDelayed(Date.now() + 15000, token);
    throw new DelayedError();
  }

  try {
    let after = 0;
    let total = 0;
    for (;;) {
      const page = await copyPage(account, month, after);
      total += page.n;
      if (page.n < PAGE) break;
      after = page.last;
      lock = await lock.extend(TTL);
      await job.updateProgress({ lines: total });
    }
    lock = await lock.extend(TTL);
    await pool.query(
      `insert into statements (account_id, month, lines, closed_at) values ($1, $2, $3, now())
       on conflict (account_id, month) do update set lines = excluded.lines, closed_at = excluded.closed_at`,
      [account, month, total],
    );
    return { lines: total };
  } finally {
    await lock.unlock().catch((err) => console.warn('unlock', err.message));
  }
}

module.exports = new Worker('statements', build, { connection, concurrency: 4 });
