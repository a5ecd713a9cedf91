import { randomUUID } from 'node:crypto';
import axios from 'axios';
import { Pool } from 'pg';
import pino from 'pino';
import { createClient } from 'redis';

const log = pino({ name: 'route-plan' });
const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000 });
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

const LEASE_MS = 60_000;
const SOLVER_TIMEOUT_MS = 45_000;
const COUNTER_RETENTION_MS = 72 * 60 * 60 * 1000;

const ACQUIRE = `
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 0
end
local fence = redis.call('INCR', KEYS[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return fence`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class DepotBusyError extends Error {}
export class StaleLeaseError extends Error {}

interface DepotLease {
  fence: number;
  remainingMs(): number;
  release(): Promise<void>;
}

interface Stop {
  orderId: string;
  lat: number;
  lng: number;
  windowStart: string;
  windowEnd: string;
}

async function leaseDepot(depotId: string): Promise<DepotLease> {
  const key = `{depot:${depotId}}:plan-lease`;
  const counter = `{depot:${depotId}}:plan-fence`;
  const token = randomUUID();
  const validUntil = performance.now() + LEASE_MS;
  const fence = Number(
    await redis.eval(ACQUIRE, {
      keys: [key, counter],
      arguments: [token, String(LEASE_MS), String(COUNTER_RETENTION_MS)],
    }),
  );
  if (fence === 0) throw new DepotBusyError(`depot ${depotId} is being planned`);
  return {
    fence,
    remainingMs: () => Math.max(0, Math.floor(validUntil - performance.now())),
    async release() {
      try {
        await redis.eval(RELEASE, { keys: [key], arguments: [token] });
      } catch (err) {
        log.warn({ err, depotId }, 'lease not released');
      }
    },
  };
}

async function openStops(depotId: string, day: string): Promise<Stop[]> {
  const { rows } = await pool.query<Stop>(
    `SELECT id AS "orderId", lat, lng, window_start AS "windowStart", window_end AS "windowEnd"
       FROM orders WHERE depot_id = $1 AND deliver_on = $2 AND state = 'ready'`,
    [depotId, day],
  );
  return rows;
}

async function storePlan(depotId: string, day: string, routes: unknown, fence: number): Promise<void> {
  const res = await pool.query(
    `UPDATE depot_plans SET day = $2, routes = $3, fence = $4, planned_at = now()
      WHERE depot_id = $1 AND fence < $4`,
    [depotId, day, JSON.stringify(routes), fence],
  );
  if (res.rowCount !== 1) throw new StaleLeaseError(`plan of depot ${depotId} has been written by a newer lease`);
}

export async function planDepot(depotId: string, day: string): Promise<number> {
  if (!redis.isOpen) await redis.connect();
  const lease = await leaseDepot(depotId);
  try {
    const stops = await openStops(depotId, day);
    if (stops.length === 0) {
      log.info({ depotId, day }, 'nothing to plan');
      return 0;
    }
    const { data } = await axios.post(
      `${process.env.SOLVER_URL}/vrp`,
      { depotId, stops },
      { timeout: SOLVER_TIMEOUT_MS, signal: AbortSignal.timeout(lease.remainingMs()) },
    );
    await storePlan(depotId, day, data.routes, lease.fence);
    log.info({ depotId, day, stops: stops.length, routes: data.routes.length, fence: lease.fence }, 'depot planned');
    return data.routes.length;
  } finally {
    await lease.release();
  }
}
