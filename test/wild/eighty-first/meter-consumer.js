import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { Redis } from 'ioredis';
import pg from 'pg';

const redis = new Redis(process.env.REDIS_URL);
const reader = new Redis(process.env.REDIS_URL);
const pool = new pg.Pool({ statement_timeout: 5_000 });

redis.defineCommand('takeFenced', {
  numberOfKeys: 2,
  lua: `
    if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
      return redis.call('INCR', KEYS[2])
    end
    return 0`,
});
redis.defineCommand('dropOwned', {
  numberOfKeys: 1,
  lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
});

const STREAM = 'meter-readings';
const GROUP = 'billing';
const me = `${hostname()}-${process.pid}`;

async function book(reading, tariff, fence) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const claim = await client.query(
      'UPDATE meters SET fence = $2 WHERE id = $1 AND fence < $2',
      [reading.meterId, fence],
    );
    if (claim.rowCount !== 1) {
      await client.query('ROLLBACK');
      return false;
    }
    await client.query(
      `INSERT INTO readings (id, meter_id, kwh, cents) VALUES ($1, $2, $3, $4)
       ON CONFLICT (id) DO NOTHING`,
      [reading.id, reading.meterId, reading.kwh, Math.round(reading.kwh * tariff.centsPerKwh)],
    );
    await client.query(
      'UPDATE meters SET cents = (SELECT sum(cents) FROM readings WHERE meter_id = $1) WHERE id = $1',
      [reading.meterId],
    );
    await client.query('COMMIT');
    return true;
  } catch (err) {
    await client.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    client.release();
  }
}

async function handle(entryId, fields) {
  const reading = JSON.parse(fields[fields.indexOf('json') + 1]);
  const lockKey = `{meter:${reading.meterId}}:lock`;
  const token = randomUUID();
  const fence = await redis.takeFenced(lockKey, `{meter:${reading.meterId}}:fence`, token, 20_000);
  if (fence === 0) return; // stays pending, claimed again below

  try {
    const res = await fetch(`${process.env.TARIFF_URL}/${reading.meterId}`, { signal: AbortSignal.timeout(5_000) });
    if (!res.ok) throw new Error(`tariff ${res.status}`);
    if (await book(reading, await res.json(), fence)) await redis.xack(STREAM, GROUP, entryId);
  } finally {
    await redis.dropOwned(lockKey, token);
  }
}

await redis.xgroup('CREATE', STREAM, GROUP, '0', 'MKSTREAM').catch((err) => {
  if (!err.message.includes('BUSYGROUP')) throw err;
});

for (;;) {
  const [, stale] = await redis.xautoclaim(STREAM, GROUP, me, 60_000, '0-0', 'COUNT', 20);
  const fresh = await reader.xreadgroup('GROUP', GROUP, me, 'COUNT', 20, 'BLOCK', 2_000, 'STREAMS', STREAM, '>');
  for (const [id, fields] of [...stale, ...(fresh?.[0][1] ?? [])]) {
    if (!fields) continue;
    await handle(id, fields).catch((err) => console.error(id, err.message));
  }
}
