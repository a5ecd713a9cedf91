import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import pg from 'pg';
import pino from 'pino';

const log = pino({ name: 'parade-permits' });
const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  statement_timeout: 3_000,
  connectionTimeoutMillis: 3_000,
});

export const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.warn({ err: err.message }, 'redis'));

const LOCK_MS = 40_000;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class RouteBusyError extends Error {}

async function withRoute(route, fn) {
  const key = `parade:route:${route}`;
  const token = randomUUID();
  for (let i = 0; ; i += 1) {
    if ((await redis.set(key, token, { NX: true, PX: LOCK_MS })) === 'OK') break;
    if (i === 10) throw new RouteBusyError(route);
    await new Promise((r) => setTimeout(r, 100 + Math.random() * 150));
  }
  try {
    return await fn();
  } finally {
    await redis
      .eval(RELEASE, { keys: [key], arguments: [token] })
      .catch((err) => log.warn({ err, key }, 'release failed'));
  }
}

async function inTransaction(fn) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const out = await fn(client);
    await client.query('COMMIT');
    return out;
  } catch (err) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    client.release();
  }
}

// The metres taken on a route are only changed under the route's lock.
export async function grantPermit(routeCode, { club, lengthM }) {
  return withRoute(routeCode, () =>
    inTransaction(async (tx) => {
      const { rows } = await tx.query('SELECT id, length_m, taken_m FROM routes WHERE code = $1', [routeCode]);
      const route = rows[0];
      if (!route) throw new Error(`no route ${routeCode}`);
      const taken = route.taken_m + lengthM + 15;
      if (taken > route.length_m) return null;
      await tx.query('UPDATE routes SET taken_m = $1 WHERE id = $2', [taken, route.id]);
      const ins = await tx.query(
        `INSERT INTO permits (route_id, club, length_m, state)
         VALUES ($1, $2, $3, 'granted') RETURNING id`,
        [route.id, club, lengthM],
      );
      return ins.rows[0].id;
    }),
  );
}

export async function withdrawPermit(permitId) {
  const found = await pool.query('SELECT route_id FROM permits WHERE id = $1', [permitId]);
  if (found.rowCount === 0) return false;
  const routeId = found.rows[0].route_id;

  return withRoute(routeId, () =>
    inTransaction(async (tx) => {
      const permit = await tx.query('SELECT length_m, state FROM permits WHERE id = $1', [permitId]);
      if (permit.rows[0].state !== 'granted') return false;
      const route = await tx.query('SELECT taken_m FROM routes WHERE id = $1', [routeId]);
      const taken = route.rows[0].taken_m - permit.rows[0].length_m - 15;
      await tx.query('UPDATE routes SET taken_m = $1 WHERE id = $2', [Math.max(0, taken), routeId]);
      await tx.query("UPDATE permits SET state = 'withdrawn' WHERE id = $1", [permitId]);
      return true;
    }),
  );
}
