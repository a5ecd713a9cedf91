import Redis from 'ioredis';
import pg from 'pg';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { computeSetpoints } from './dispatch-model.mjs';

const PARK = process.env.PARK_ID;
const LEASE_MS = Number(process.env.LEASE_MS ?? 15_000);
const TICK_MS = 4_000;
const me = randomUUID();

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2_000, maxRetriesPerRequest: 1 });
redis.on('error', (err) => console.error('redis', err.message));
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 3_000, connectionTimeoutMillis: 3_000 });
db.on('error', (err) => console.error('pg', err.message));

const LEADER = `{park:${PARK}}:leader`;
const EPOCH = `{park:${PARK}}:epoch`;

const CAMPAIGN = `
local holder = redis.call('GET', KEYS[1])
local known = redis.call('GET', KEYS[2])
if holder == ARGV[1] and known then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return tonumber(known)
end
if holder and holder ~= ARGV[1] then return 0 end
local epoch = math.max(tonumber(known or '0'), tonumber(ARGV[3])) + 1
redis.call('SET', KEYS[2], string.format('%.0f', epoch))
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return epoch`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

async function publish(epoch, setpoints) {
  const c = await db.connect();
  let broken;
  try {
    await c.query('BEGIN');
    const fence = await c.query(
      'UPDATE dispatch_epoch SET epoch = $2 WHERE park_id = $1 AND epoch <= $2', [PARK, epoch]);
    if (fence.rowCount !== 1) {
      await c.query('ROLLBACK');
      return false;
    }
    await c.query(
      `INSERT INTO turbine_setpoints (turbine_id, kw, epoch)
       SELECT t.id, t.kw, $3 FROM unnest($1::text[], $2::int[]) AS t(id, kw)
       ON CONFLICT (turbine_id) DO UPDATE SET kw = excluded.kw, epoch = excluded.epoch`,
      [setpoints.map((s) => s.turbineId), setpoints.map((s) => s.kw), epoch]);
    await c.query('COMMIT');
    return true;
  } catch (err) {
    await c.query('ROLLBACK').catch((e) => { broken = e; });
    throw err;
  } finally {
    c.release(broken);
  }
}

async function tick() {
  const { rows } = await db.query('SELECT epoch FROM dispatch_epoch WHERE park_id = $1', [PARK]);
  const asked = performance.now();
  const epoch = Number(await redis.eval(CAMPAIGN, 2, LEADER, EPOCH, me, LEASE_MS, rows[0].epoch));
  if (!epoch) return;

  const setpoints = await computeSetpoints(PARK);
  if (performance.now() - asked > LEASE_MS - 2_000) {
    console.warn('plan took too long, dropped');
    return;
  }
  const written = await publish(epoch, setpoints);
  console.log(written ? `epoch ${epoch}: ${setpoints.length} setpoints` : `epoch ${epoch} superseded`);
}

const stop = new AbortController();
for (const sig of ['SIGINT', 'SIGTERM']) process.once(sig, () => stop.abort());

await db.query('INSERT INTO dispatch_epoch (park_id, epoch) VALUES ($1, 0) ON CONFLICT DO NOTHING', [PARK]);
while (!stop.signal.aborted) {
  await tick().catch((err) => console.error('tick', err));
  await sleep(TICK_MS, undefined, { signal: stop.signal }).catch(() => {});
}
await redis.eval(RESIGN, 1, LEADER, me).catch(() => {});
redis.disconnect();
await db.end();
