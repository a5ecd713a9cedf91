import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import type { Pool, PoolClient } from 'pg';
import { log } from './log.mjs';

type RedisClient = ReturnType<typeof createClient>;

const LOCK_TTL_MS = 30_000;
// One statement may take this long, and so may the commit.
const STATEMENT_MS = 4_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

export class ParcelLock implements AsyncDisposable {
  #redis: RedisClient;
  #key: string;
  #token: string;
  #expiresAt: number;

  private constructor(redis: RedisClient, key: string, token: string, expiresAt: number) {
    this.#redis = redis;
    this.#key = key;
    this.#token = token;
    this.#expiresAt = expiresAt;
  }

  static async acquire(redis: RedisClient, parcelId: string, attempts = 10): Promise<ParcelLock | null> {
    const key = `lock:parcel:${parcelId}`;
    for (let i = 0; i < attempts; i++) {
      const token = randomUUID();
      const asked = performance.now();
      const reply = await redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
      if (reply === 'OK') return new ParcelLock(redis, key, token, asked + LOCK_TTL_MS);
      await sleep(100 + Math.random() * 200);
    }
    return null;
  }

  /** Throws unless at least `ms` of the lock's life are left. */
  requireRemaining(ms: number): void {
    const left = this.#expiresAt - performance.now();
    if (left < ms) throw new Error(`${this.#key}: only ${Math.round(left)} ms left`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#redis.eval(UNLOCK, { keys: [this.#key], arguments: [this.#token] });
    } catch (err) {
      log.warn({ err, key: this.#key }, 'unlock failed, leaving it to the TTL');
    }
  }
}

export interface ScanMessage {
  parcelId: string;
  scannedAt: string;
  depot: string;
  ack(): Promise<void>;
  nack(opts: { delayMs: number }): Promise<void>;
}

async function mergeScan(tx: PoolClient, msg: ScanMessage): Promise<void> {
  const { rows } = await tx.query('SELECT version, last_scan_at FROM parcels WHERE id = $1', [msg.parcelId]);
  if (rows.length === 0) throw new Error(`unknown parcel ${msg.parcelId}`);
  const parcel = rows[0];
  if (new Date(parcel.last_scan_at) >= new Date(msg.scannedAt)) return;
  const res = await tx.query(
    'UPDATE parcels SET depot = $1, last_scan_at = $2, version = version + 1 WHERE id = $3 AND version = $4',
    [msg.depot, msg.scannedAt, msg.parcelId, parcel.version],
  );
  if (res.rowCount !== 1) throw new Error(`parcel ${msg.parcelId} changed meanwhile`);
}

export async function handleScan(redis: RedisClient, pool: Pool, msg: ScanMessage): Promise<void> {
  try {
    await using lock = await ParcelLock.acquire(redis, msg.parcelId);
    if (!lock) {
      await msg.nack({ delayMs: 2_000 });
      return;
    }
    const tx = await pool.connect();
    try {
      await tx.query('BEGIN');
      await tx.query(`SET LOCAL statement_timeout = ${STATEMENT_MS}`);
      lock.requireRemaining(3 * STATEMENT_MS);
      await mergeScan(tx, msg);
      lock.requireRemaining(STATEMENT_MS);
      await tx.query('COMMIT');
    } catch (err) {
      await tx.query('ROLLBACK').catch(() => undefined);
      throw err;
    } finally {
      tx.release();
    }
  } catch (err) {
    log.error({ err, parcelId: msg.parcelId }, 'scan not merged');
    await msg.nack({ delayMs: 5_000 });
    return;
  }
  await msg.ack();
}
