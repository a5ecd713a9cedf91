import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { Redis } from 'ioredis';
import type { Pool } from 'pg';

/** How long one dispatcher may own a dock door. */
const LEASE_MS = 15_000;
/** Waiters look again at least this often, with or without a hint. */
const RECHECK_MS = 1_000;

const TAKE = `
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const GIVE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], 'free')
return 1`;

export class DoorBusyError extends Error {}

export interface Lease {
  /** Milliseconds of ownership that are left, by this process's clock. */
  remainingMs(): number;
}

/** Resolves on the next message of `sub`, or after `ms`. */
function hint(sub: Redis, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      sub.off('message', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    sub.on('message', done);
  });
}

/**
 * Runs `work` while this process owns the door.
 * @throws DoorBusyError when the door was not free within `maxWaitMs`
 */
export async function withDoor<T>(
  redis: Redis,
  doorId: string,
  maxWaitMs: number,
  work: (lease: Lease) => Promise<T>,
): Promise<T> {
  const key = `yard:door:${doorId}`;
  const channel = `${key}:free`;
  const token = randomUUID();
  const giveUpAt = performance.now() + maxWaitMs;
  let sub: Redis | undefined;
  try {
    let until = 0;
    for (;;) {
      const asked = performance.now();
      if ((await redis.eval(TAKE, 1, key, token, LEASE_MS)) === 1) {
        until = asked + LEASE_MS;
        break;
      }
      const left = giveUpAt - performance.now();
      if (left <= 0) throw new DoorBusyError(`door ${doorId} is busy`);
      if (!sub) {
        sub = redis.duplicate();
        sub.on('error', () => undefined);
        await sub.subscribe(channel);
        continue;
      }
      await hint(sub, Math.min(left, RECHECK_MS));
    }
    sub?.disconnect();
    return await work({ remainingMs: () => until - performance.now() });
  } finally {
    sub?.disconnect();
    await redis.eval(GIVE, 1, key, token, channel).catch(() => undefined);
  }
}

/** Sends the longest-waiting truck to a door; returns its id, or null if there is none. */
export async function callNextTruck(redis: Redis, pool: Pool, doorId: string): Promise<string | null> {
  return withDoor(redis, doorId, 10_000, async (lease) => {
    const db = await pool.connect();
    try {
      if (lease.remainingMs() < 8_000) throw new DoorBusyError('too late to start');
      await db.query('BEGIN');
      await db.query("SET LOCAL statement_timeout = '2s'");
      const { rows } = await db.query(
        `SELECT id FROM trucks WHERE door_id IS NULL AND state = 'waiting'
         ORDER BY arrived_at LIMIT 1 FOR UPDATE SKIP LOCKED`,
      );
      if (rows.length === 0) {
        await db.query('ROLLBACK');
        return null;
      }
      const claimed = await db.query(
        'UPDATE dock_doors SET truck_id = $2 WHERE id = $1 AND truck_id IS NULL',
        [doorId, rows[0].id],
      );
      if (claimed.rowCount !== 1) throw new DoorBusyError(`door ${doorId} already has a truck`);
      await db.query("UPDATE trucks SET door_id = $1, state = 'called' WHERE id = $2", [doorId, rows[0].id]);
      await db.query('COMMIT');
      return rows[0].id as string;
    } catch (err) {
      await db.query('ROLLBACK').catch(() => undefined);
      throw err;
    } finally {
      db.release();
    }
  });
}
