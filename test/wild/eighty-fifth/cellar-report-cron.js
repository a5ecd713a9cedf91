const cron = require('node-cron');
const Redis = require('ioredis');
const { Pool } = require('pg');
const { randomUUID } = require('crypto');
const mailer = require('./mailer');

const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({ statement_timeout: 20_000 });

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

// every pod of the api runs this file, only one of them may send
async function onlyOnce(name, ttlMs, job) {
  const key = `cron:${name}`;
  const token = randomUUID();
  const ok = await redis.set(key, token, 'PX', ttlMs, 'NX');
  if (ok !== 'OK') {
    console.log(`${name}: another pod has it`);
    return;
  }
  try {
    await job();
  } finally {
    await redis.eval(UNLOCK, 1, key, token);
  }
}

async function climateReport() {
  const { rows } = await pool.query(`
    select c.id, c.name, c.owner_email,
           min(r.celsius) as coldest, max(r.celsius) as warmest, avg(r.humidity)::int as humidity
      from cellars c
      join readings r on r.cellar_id = c.id
     where r.taken_at >= now() - interval '1 day'
     group by c.id`);

  const outside = rows.filter((r) => r.coldest < 10 || r.warmest > 15 || r.humidity < 55);
  if (!outside.length) return;

  await mailer.send({
    to: process.env.CELLAR_MASTER,
    subject: `${outside.length} cellars were out of range yesterday`,
    text: outside
      .map((r) => `${r.name}: ${r.coldest} to ${r.warmest} °C, ${r.humidity} % (${r.owner_email})`)
      .join('\n'),
    timeoutMs: 30_000,
  });
}

cron.schedule(
  '0 6 * * *',
  () =>
    onlyOnce('climate-report', 10 * 60 * 1000, climateReport).catch((err) =>
      console.error('climate report failed', err),
    ),
  { timezone: 'Europe/Paris' },
);
