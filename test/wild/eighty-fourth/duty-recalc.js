#!/usr/bin/env node
// usage: duty-recalc <office>     (brokers start it from any of the three hosts)
const { default: Redlock } = require('redlock5');
const Redis = require('ioredis');
const db = require('./db');

const office = process.argv[2];
if (!office) {
  console.error('which office?');
  process.exit(2);
}

const LEASE = 30000;
const redis = new Redis(process.env.REDIS_URL);
const redlock = new Redlock([redis], { retryCount: 0 });
redlock.on('error', (e) => console.warn('redlock', e.message));

async function rateFor(code, day) {
  const res = await fetch(`${process.env.TARIC_URL}/${code}?on=${day}`, { signal: AbortSignal.timeout(4000) });
  if (!res.ok) throw new Error(`taric ${code}: ${res.status}`);
  return (await res.json()).rate;
}

async function recalc(row) {
  const rate = await rateFor(row.commodity_code, row.lodged_on);
  const duty = Math.round(row.value_cents * rate);
  await db.tx(async (t) => {
    await t.query('INSERT INTO duty_ledger (declaration_id, cents) VALUES ($1, $2)', [row.id, duty - row.duty_cents]);
    await t.query('UPDATE declarations SET duty_cents = $2, recalculated_at = now() WHERE id = $1', [row.id, duty]);
  });
}

async function main() {
  let lock;
  try {
    lock = await redlock.acquire([`duty-recalc:${office}`], LEASE);
  } catch (e) {
    console.error('already running for', office);
    process.exitCode = 3;
    return;
  }

  const beat = setInterval(() => {
    lock.extend(LEASE).catch((e) => console.warn('extend:', e.message));
  }, LEASE / 3);

  let n = 0;
  try {
    for (;;) {
      const { rows } = await db.query(
        'SELECT * FROM declarations WHERE office = $1 AND recalculated_at IS NULL ORDER BY id LIMIT 100',
        [office]
      );
      if (rows.length === 0) break;
      for (const row of rows) {
        await recalc(row);
        n++;
      }
      console.log(office, n);
    }
  } finally {
    clearInterval(beat);
    await lock.release().catch(() => {});
  }
}

main()
  .catch((e) => {
    console.error(e);
    process.exitCode = 1;
  })
  .finally(() => {
    redis.disconnect();
    return db.end();
  });
