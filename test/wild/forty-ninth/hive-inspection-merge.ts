import Redis from 'ioredis';
import pino from 'pino';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { pool } from '../db';
import { mergeObservations, type Observation } from './merge-observations';

const log = pino({ name: 'hive-merge' });
const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 2, commandTimeout: 2_000 });

const TTL_MS = 20_000;
const RENEW_EVERY_MS = 6_000;

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class MergeBusyError extends Error {}

async function acquire(key: string, token: string, waitMs: number): Promise<number> {
  const giveUpAt = performance.now() + waitMs;
  for (;;) {
    const sentAt = performance.now();
    if ((await redis.set(key, token, 'PX', TTL_MS, 'NX')) === 'OK') return sentAt + TTL_MS;
    if (performance.now() >= giveUpAt) throw new MergeBusyError(key);
    await sleep(100 + Math.random() * 150);
  }
}

async function withLock<T>(key: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const token = randomUUID();
  let heldUntil = await acquire(key, token, 5_000);
  const controller = new AbortController();

  const renew = async () => {
    const sentAt = performance.now();
    try {
      if ((await redis.eval(RENEW, 1, key, token, TTL_MS)) === 1) {
        heldUntil = sentAt + TTL_MS;
      } else {
        controller.abort(new Error(`lost ${key}`));
      }
    } catch (err) {
      log.warn({ err, key }, 'renewal failed');
      if (performance.now() >= heldUntil - RENEW_EVERY_MS) {
        controller.abort(new Error(`could not renew ${key}`));
      }
    }
  };

  let renewal: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    renewal = renewal.then(renew);
  }, RENEW_EVERY_MS);

  try {
    return await fn(controller.signal);
  } finally {
    clearInterval(timer);
    await renewal;
    await redis.eval(RELEASE, 1, key, token).catch((err) => log.warn({ err, key }, 'release failed'));
  }
}

// Folds the field notes beekeepers synced from their phones into the hive's running summary.
export async function mergeInspection(hiveId: string): Promise<number> {
  return withLock(`lock:hive:${hiveId}:merge`, async (signal) => {
    const hive = await pool.query('SELECT version, summary FROM hives WHERE id = $1', [hiveId]);
    if (hive.rowCount === 0) throw new Error(`unknown hive ${hiveId}`);
    const drafts = await pool.query<Observation & { id: string }>(
      'SELECT id, frame, brood, stores, taken_at FROM inspection_drafts WHERE hive_id = $1 ORDER BY taken_at',
      [hiveId],
    );
    if (drafts.rows.length === 0) return 0;

    const { version, summary } = hive.rows[0];
    const merged = await mergeObservations(summary, drafts.rows, { signal });
    signal.throwIfAborted();

    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      const updated = await client.query(
        'UPDATE hives SET summary = $2, version = version + 1 WHERE id = $1 AND version = $3',
        [hiveId, merged, version],
      );
      if (updated.rowCount !== 1) throw new Error(`hive ${hiveId} changed while merging`);
      await client.query('DELETE FROM inspection_drafts WHERE id = ANY($1)', [drafts.rows.map((d) => d.id)]);
      await client.query('COMMIT');
    } catch (err) {
      await client.query('ROLLBACK').catch(() => undefined);
      throw err;
    } finally {
      client.release();
    }
    return drafts.rows.length;
  });
}
