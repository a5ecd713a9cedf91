import { Hono } from 'hono';
import { createClient } from 'redis';
import pg from 'pg';
import pino from 'pino';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { chainSegments } from '../routing/chain.mjs';

const log = pino({ name: 'plow-dispatch' });
const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  statement_timeout: 5_000,
  query_timeout: 6_000,
  connectionTimeoutMillis: 3_000,
});

const redis = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  pingInterval: 5_000,
  socket: { connectTimeout: 3_000, socketTimeout: 12_000 },
});
redis.on('error', (err) => log.error({ err }, 'redis'));
await redis.connect();

const LOCK_MS = 60_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function lockDistrict(district, waitMs = 5_000) {
  const key = `plow:district:${district}:dispatch`;
  const token = randomUUID();
  const giveUpAt = Date.now() + waitMs;
  do {
    const reply = await redis.set(key, token, 'PX', LOCK_MS, 'NX');
    if (reply === 'OK') return { key, token };
    await sleep(100 + Math.random() * 200);
  } while (Date.now() < giveUpAt);
  return null;
}

async function unlockDistrict({ key, token }) {
  try {
    await redis.eval(RELEASE, { keys: [key], arguments: [token] });
  } catch (err) {
    log.warn({ err, key }, 'district lock left to expire');
  }
}

async function claimRoute(district, plowId) {
  const { rows } = await pool.query(
    `SELECT id, from_node, to_node, length_m, priority FROM road_segments
      WHERE district = $1 AND assigned_to IS NULL AND snow_cm >= 4
      ORDER BY priority DESC, snow_cm DESC LIMIT 60`,
    [district],
  );
  const route = chainSegments(rows, { maxLengthM: 18_000 });
  if (route.length === 0) return null;

  await pool.query('UPDATE road_segments SET assigned_to = $2, assigned_at = now() WHERE id = ANY($1)', [
    route.map((s) => s.id),
    plowId,
  ]);
  return route;
}

export const plows = new Hono();

plows.post('/districts/:district/plows/:plowId/claim', async (c) => {
  const { district, plowId } = c.req.param();
  let lock;
  try {
    lock = await lockDistrict(district);
  } catch (err) {
    log.error({ err, district }, 'dispatch lock unavailable');
    return c.json({ error: 'dispatch is offline' }, 503);
  }
  if (!lock) return c.json({ error: 'another plow is being dispatched' }, 409);

  try {
    const route = await claimRoute(district, plowId);
    if (!route) return c.json({ segments: [] });
    log.info({ district, plowId, segments: route.length }, 'route claimed');
    return c.json({ segments: route.map(({ id, from_node, to_node }) => ({ id, from_node, to_node })) });
  } finally {
    await unlockDistrict(lock);
  }
});
