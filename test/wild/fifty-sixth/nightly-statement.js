require('dotenv').config();
const { randomUUID } = require('crypto');
const cron = require('node-cron');
const { createClient } = require('redis');
const { Pool } = require('pg');
const log = require('pino')({ name: 'statements' });

// All replicas run this file; whoever comes first does the day.
// 02:00 is the regular run, the later ones only matter if that one failed.
const SCHEDULE = '0,30 2-4 * * *';
const KEEP_SECONDS = 20 * 60 * 60;

const FORGET = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  statement_timeout: 20 * 60 * 1000,
});
pool.on('error', (err) => log.error({ err }, 'idle pg client'));

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

// statements has UNIQUE (account_id, period). The mailer picks up rows with mailed_at IS NULL.
const INSERT = `
  INSERT INTO statements (account_id, period, opening, closing)
  SELECT b.account_id, $1::date, b.opening, b.closing
    FROM daily_balances b
   WHERE b.day = $1::date - 1
  ON CONFLICT (account_id, period) DO NOTHING
`;

async function runFor(day) {
  const key = `statements:done:${day}`;
  const runId = randomUUID();

  const first = await redis.set(key, runId, { NX: true, EX: KEEP_SECONDS });
  if (first === null) {
    log.debug({ day }, 'already done or in progress');
    return;
  }

  const started = Date.now();
  try {
    const { rowCount } = await pool.query(INSERT, [day]);
    log.info({ day, rowCount, ms: Date.now() - started }, 'statements written');
  } catch (err) {
    log.error({ err, day }, 'statements failed, next slot will try again');
    await redis.eval(FORGET, { keys: [key], arguments: [runId] });
  }
  // If the pod is killed in between, the key stays. The 06:00 completeness check then pages,
  // and support deletes the key and calls `npm run statements -- <day>`.
}

async function main() {
  await redis.connect();
  const manualDay = process.argv[2];
  if (manualDay) {
    await runFor(manualDay);
    await Promise.all([redis.quit(), pool.end()]);
    return;
  }
  cron.schedule(
    SCHEDULE,
    () => {
      const day = new Date().toISOString().slice(0, 10);
      runFor(day).catch((err) => log.error({ err, day }, 'run'));
    },
    { timezone: 'Etc/UTC' },
  );
}

main().catch((err) => {
  log.fatal({ err }, 'startup');
  process.exit(1);
});
