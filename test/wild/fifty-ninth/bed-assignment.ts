import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type Redis from 'ioredis';
import type { Pool } from 'pg';
import { logger } from '../lib/logger';

const log = logger.child({ module: 'bed-assignment' });

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

export class LockBusyError extends Error {}
export class LockLostError extends Error {}

// the client from lib/redis has commandTimeout 2000, no command stays without an end
const TTL_MS = 12_000;
const SAFETY_MS = 1_500;

async function releaseQuietly(redis: Redis, key: string, token: string) {
  try {
    await redis.eval(RELEASE, 1, key, token);
  } catch (err) {
    log.warn({ err, key }, 'release failed, key will expire');
  }
}

export async function withLock<T>(redis: Redis, key: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const token = randomUUID();
  const startedAt = performance.now();

  let reply: string | null;
  try {
    reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
  } catch (err) {
    // we cannot know whether the SET arrived
    await releaseQuietly(redis, key, token);
    throw err;
  }
  if (reply !== 'OK') throw new LockBusyError(key);

  const ac = new AbortController();
  let done = false;
  let deadline = 0;
  let deadlineTimer: NodeJS.Timeout | undefined;

  // The lease counts from the moment the command was sent, not from the answer. If no renewal is
  // confirmed before the deadline (nack, error or silence alike), the work is told to stop.
  const arm = (sentAt: number) => {
    if (done || ac.signal.aborted) return;
    deadline = Math.max(deadline, sentAt + TTL_MS - SAFETY_MS);
    clearTimeout(deadlineTimer);
    const left = deadline - performance.now();
    if (left <= 0) return ac.abort(new LockLostError(key));
    deadlineTimer = setTimeout(() => ac.abort(new LockLostError(key)), left);
  };

  arm(startedAt);
  const heartbeat = setInterval(async () => {
    const sentAt = performance.now();
    try {
      const ok = await redis.eval(RENEW, 1, key, token, TTL_MS);
      if (ok === 1) arm(sentAt);
      else if (!done) ac.abort(new LockLostError(key));
    } catch (err) {
      log.warn({ err, key }, 'renewal failed');
    }
  }, TTL_MS / 4);

  try {
    ac.signal.throwIfAborted();
    return await fn(ac.signal);
  } finally {
    done = true;
    clearInterval(heartbeat);
    clearTimeout(deadlineTimer);
    await releaseQuietly(redis, key, token);
  }
}

export async function assignBed(deps: { redis: Redis; pg: Pool; adtUrl: string }, ward: string, patientId: string) {
  return withLock(deps.redis, `lock:ward:${ward}:beds`, async (signal) => {
    const res = await fetch(`${deps.adtUrl}/wards/${ward}/free-beds`, { signal });
    if (!res.ok) throw new Error(`ADT answered ${res.status}`);
    const { beds } = (await res.json()) as { beds: { id: string; isolation: boolean }[] };

    for (const bed of beds) {
      signal.throwIfAborted();
      // The bed row is the last word: a bed is taken only if nobody lies in it.
      const { rowCount } = await deps.pg.query(
        `WITH taken AS (
           UPDATE beds SET patient_id = $1, assigned_at = now()
            WHERE id = $2 AND patient_id IS NULL
              AND NOT EXISTS (SELECT 1 FROM beds b WHERE b.patient_id = $1)
           RETURNING id)
         INSERT INTO outbox (topic, payload)
         SELECT 'adt.a02', jsonb_build_object('bed', id, 'patient', $1::text) FROM taken`,
        [patientId, bed.id],
      ); // beds.patient_id is UNIQUE
      if (rowCount === 1) {
        log.info({ ward, bed: bed.id }, 'bed assigned');
        return bed.id;
      }
    }
    return null;
  });
}
