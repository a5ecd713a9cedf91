import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

interface Tx {
  query(sql: string, params: unknown[]): Promise<{ rowCount: number }>;
}
interface Db {
  cursor(area: string): Promise<number>;
  tx(timeoutMs: number, body: (tx: Tx) => Promise<void>): Promise<void>;
}
interface ReadingFeed {
  read(area: string, from: number, signal: AbortSignal): Promise<{ rows: object[]; next: number }>;
}
interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}
interface Lease {
  key: string;
  token: string;
  validUntil: number;
  lost: AbortController;
}

const TTL_MS = 45_000;
const RENEW_EVERY_MS = 10_000;
const COMMIT_TIMEOUT_MS = 8_000;
const MARGIN_MS = 2_000;

const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1]) else return 0 end`;

export class MeterImportJob {
  private readonly redis: Redis;
  private readonly db: Db;
  private readonly feed: ReadingFeed;
  private readonly log: Logger;

  constructor(redis: Redis, db: Db, feed: ReadingFeed, log: Logger) {
    this.redis = redis;
    this.db = db;
    this.feed = feed;
    this.log = log;
  }

  /** Imports all waiting meter readings of a grid area; false when another worker is at it. */
  async run(area: string): Promise<boolean> {
    const key = `meter-import:${area}`;
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await this.redis.set(key, token, 'PX', TTL_MS, 'NX');
    if (reply !== 'OK') return false;

    const lease: Lease = { key, token, validUntil: sentAt + TTL_MS, lost: new AbortController() };
    const stop = new AbortController();
    void this.keepAlive(lease, stop.signal);
    try {
      await this.importAll(area, lease);
      return true;
    } finally {
      stop.abort();
      await this.redis.eval(RELEASE, 1, key, token).catch((err: unknown) => {
        this.log.warn('import lease left to expire', { key, err });
      });
    }
  }

  private async importAll(area: string, lease: Lease): Promise<void> {
    let position = await this.db.cursor(area);
    for (;;) {
      const { rows, next } = await this.feed.read(area, position, lease.lost.signal);
      if (rows.length === 0) return;

      this.assertHeld(lease);
      // The cursor moves only from where this run saw it, in the same transaction as the rows,
      // so a worker that wakes up late commits nothing.
      await this.db.tx(COMMIT_TIMEOUT_MS, async (tx) => {
        const moved = await tx.query(
          'UPDATE import_cursor SET position = $3 WHERE area = $1 AND position = $2',
          [area, position, next],
        );
        if (moved.rowCount !== 1) throw new Error(`cursor of ${area} moved by another worker`);
        await tx.query(
          `INSERT INTO readings (meter_id, slot, watt_hours)
           SELECT meter_id, slot, watt_hours
             FROM jsonb_to_recordset($1::jsonb) AS r(meter_id text, slot timestamptz, watt_hours bigint)
           ON CONFLICT (meter_id, slot) DO NOTHING`,
          [JSON.stringify(rows)],
        );
      });
      this.log.info('readings committed', { area, position: next, count: rows.length });
      position = next;
    }
  }

  private assertHeld(lease: Lease): void {
    lease.lost.signal.throwIfAborted();
    if (lease.validUntil - performance.now() < COMMIT_TIMEOUT_MS + MARGIN_MS) {
      throw new Error(`lease ${lease.key} could not be renewed in time`);
    }
  }

  private async keepAlive(lease: Lease, stop: AbortSignal): Promise<void> {
    for (;;) {
      try {
        await sleep(RENEW_EVERY_MS, undefined, { signal: stop });
      } catch {
        return;
      }
      const sentAt = performance.now();
      try {
        const extended = await this.redis.eval(EXTEND, 1, lease.key, lease.token, TTL_MS);
        if (extended !== 1) {
          lease.lost.abort(new Error(`lease ${lease.key} was lost`));
          return;
        }
        lease.validUntil = sentAt + TTL_MS;
      } catch (err) {
        // validUntil stays where it was; assertHeld() stops the import when it comes near.
        this.log.warn('renewal failed', { key: lease.key, err });
      }
    }
  }
}
