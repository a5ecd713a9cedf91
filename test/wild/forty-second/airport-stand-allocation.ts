import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';

const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 1, commandTimeout: 2_000 });
// statement_timeout has to stay below MARGIN_MS, see below
const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 3_000 });

const TTL_MS = 20_000;
const MARGIN_MS = 5_000;
const BEAT_MS = 5_000;

const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

export class StandBusy extends Error {}
export class StandLockLost extends Error {}

export interface StandLease {
  signal: AbortSignal;
  assertHeld(): void;
}

export async function withStandLock<T>(
  standId: string,
  fn: (lease: StandLease) => Promise<T>,
  waitMs = 8_000,
): Promise<T> {
  const key = `apron:stand:${standId}:lock`;
  const token = randomUUID();
  const giveUpAt = performance.now() + waitMs;

  let validUntil = 0;
  for (;;) {
    const sentAt = performance.now();
    if ((await redis.set(key, token, 'PX', TTL_MS, 'NX')) === 'OK') {
      validUntil = sentAt + TTL_MS - MARGIN_MS;
      break;
    }
    if (performance.now() > giveUpAt) throw new StandBusy(standId);
    await sleep(100 + Math.random() * 150);
  }

  const ac = new AbortController();
  let finished = false;
  const lose = () => ac.abort(new StandLockLost(standId));
  let watchdog = setTimeout(lose, validUntil - performance.now());

  const beat = setInterval(async () => {
    const sentAt = performance.now();
    try {
      const ok = await redis.eval(EXTEND, 1, key, token, TTL_MS);
      if (finished || ac.signal.aborted) return;
      if (ok !== 1) return lose();
      validUntil = sentAt + TTL_MS - MARGIN_MS;
      clearTimeout(watchdog);
      watchdog = setTimeout(lose, validUntil - performance.now());
    } catch (err) {
      // next beat may get through; the watchdog has the last word
      console.warn('stand lock heartbeat failed', standId, err);
    }
  }, BEAT_MS);

  const assertHeld = () => {
    ac.signal.throwIfAborted();
    if (performance.now() >= validUntil) throw new StandLockLost(standId);
  };

  try {
    return await fn({ signal: ac.signal, assertHeld });
  } finally {
    finished = true;
    clearInterval(beat);
    clearTimeout(watchdog);
    await redis.eval(RELEASE, 1, key, token).catch((err) => console.warn('stand lock release', standId, err));
  }
}

export function allocateStand(standId: string, flight: string, from: Date, to: Date) {
  return withStandLock(standId, async (lease) => {
    const db = await pool.connect();
    let broken: Error | undefined;
    try {
      await db.query('BEGIN');
      const clash = await db.query(
        'SELECT flight FROM stand_slots WHERE stand_id = $1 AND tstzrange(starts, ends) && tstzrange($2, $3)',
        [standId, from, to],
      );
      if (clash.rowCount) {
        await db.query('ROLLBACK');
        return { allocated: false, clash: clash.rows[0].flight as string };
      }
      lease.assertHeld();
      await db.query('INSERT INTO stand_slots (stand_id, flight, starts, ends) VALUES ($1,$2,$3,$4)', [standId, flight, from, to]);
      lease.assertHeld();
      await db.query('COMMIT');
      return { allocated: true };
    } catch (err) {
      broken = err as Error;
      throw err;
    } finally {
      // with an error the pool closes the connection and the server rolls back
      db.release(broken);
    }
  });
}
