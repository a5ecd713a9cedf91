const cron = require('node-cron');
const Redis = require('ioredis');
const { Pool } = require('pg');
const { randomUUID } = require('node:crypto');

const ZONE = process.env.TZ_NAME || 'Europe/Vienna';
const LEASE_MS = 60_000;
const BATCH = 500;

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 5_000 });
const db = new Pool({
  connectionString: process.env.DATABASE_URL,
  statement_timeout: 20_000,
  connectionTimeoutMillis: 5_000,
});
redis.on('error', (err) => console.error('redis', err.message));

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const dayOf = new Intl.DateTimeFormat('en-CA', { timeZone: ZONE, year: 'numeric', month: '2-digit', day: '2-digit' });

// reminder_outbox has PRIMARY KEY (donor_id, eligible_on); the mailer reads from it.
async function enqueueBatch(day) {
  const { rows } = await db.query(
    `WITH due AS (
       SELECT d.id, d.next_eligible_on FROM donors d
        WHERE d.next_eligible_on <= $1::date AND d.wants_reminders
          AND NOT EXISTS (SELECT 1 FROM reminder_outbox o
                           WHERE o.donor_id = d.id AND o.eligible_on = d.next_eligible_on)
        ORDER BY d.id LIMIT $2
     ), put AS (
       INSERT INTO reminder_outbox (donor_id, eligible_on)
       SELECT id, next_eligible_on FROM due ON CONFLICT DO NOTHING
     )
     SELECT count(*)::int AS due FROM due`,
    [day, BATCH]);
  return rows[0].due;
}

async function tick() {
  const day = dayOf.format(new Date());
  const done = `donor-reminders:${day}:done`;
  const lease = `donor-reminders:${day}:lease`;
  if (await redis.exists(done)) return;

  const token = randomUUID();
  if ((await redis.set(lease, token, 'PX', LEASE_MS, 'NX')) !== 'OK') return;
  let total = 0;
  try {
    for (;;) {
      if ((await redis.eval(EXTEND, 1, lease, token, LEASE_MS)) !== 1) {
        console.warn(`${day}: lease is gone after ${total} reminders`);
        return;
      }
      const due = await enqueueBatch(day);
      if (due === 0) break;
      total += due;
    }
    await redis.set(done, String(total), 'EX', 2 * 86_400);
    console.log(`${day}: ${total} reminders queued`);
  } finally {
    await redis.eval(RELEASE, 1, lease, token).catch((err) => console.warn('release', err.message));
  }
}

// Several runs in the morning: the first complete one closes the day.
const job = cron.schedule('*/10 7-11 * * *', () => tick().catch((err) => console.error('reminders', err)), { timezone: ZONE });

process.once('SIGTERM', () => {
  job.stop();
  setTimeout(() => process.exit(0), 25_000);
});
