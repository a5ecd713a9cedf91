import { randomUUID } from 'node:crypto';
import { ConflictException, Inject, Injectable, Logger } from '@nestjs/common';
import type Redis from 'ioredis';
import type { Pool, PoolClient } from 'pg';

/** KEYS: lock, counter. ARGV: token, ttl, floor. Returns a fence, or 0 when taken. */
const TAKE_WARD = `
if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
local counter = tonumber(redis.call('get', KEYS[2]) or '0')
if counter < tonumber(ARGV[3]) then redis.call('set', KEYS[2], ARGV[3]) end
return redis.call('incr', KEYS[2])`;

const LEAVE_WARD = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

const WARD_TTL_MS = 10_000;

export interface Assignment {
  bedId: string;
  patientId: string;
}

/**
 * Assigns free beds. Assignments on one ward happen one after the other, since
 * the choice of a bed depends on all the others (isolation, staffing, sex).
 */
@Injectable()
export class BedBoardService {
  private readonly log = new Logger(BedBoardService.name);

  constructor(
    @Inject('REDIS') private readonly redis: Redis,
    @Inject('PG') private readonly pool: Pool,
  ) {}

  /** Gives the patient a bed on the ward; repeated calls return the same bed. */
  async assign(wardId: string, patientId: string): Promise<Assignment> {
    const lockKey = `ward:{${wardId}}:lock`;
    const fenceKey = `ward:{${wardId}}:fence`;
    const token = randomUUID();
    const floor = await this.lastFence(wardId);
    const fence = Number(await this.redis.eval(TAKE_WARD, 2, lockKey, fenceKey, token, WARD_TTL_MS, floor));
    if (fence === 0) throw new ConflictException('ward is being planned, try again');
    try {
      return await this.inTransaction((db) => this.place(db, wardId, patientId, fence));
    } finally {
      await this.redis.eval(LEAVE_WARD, 1, lockKey, token).catch((err) => {
        this.log.warn(`ward ${wardId} not released: ${err.message}`);
      });
    }
  }

  private async lastFence(wardId: string): Promise<string> {
    const { rows } = await this.pool.query('SELECT fence FROM wards WHERE id = $1', [wardId]);
    return String(rows[0]?.fence ?? 0);
  }

  private async place(db: PoolClient, wardId: string, patientId: string, fence: number): Promise<Assignment> {
    await db.query("SET LOCAL statement_timeout = '3s'");
    const ward = await db.query('UPDATE wards SET fence = $1 WHERE id = $2 AND fence < $1', [fence, wardId]);
    if (ward.rowCount !== 1) throw new ConflictException('a later plan exists for this ward');

    const known = await db.query('SELECT id FROM beds WHERE ward_id = $1 AND patient_id = $2', [wardId, patientId]);
    if (known.rowCount) return { bedId: known.rows[0].id, patientId };

    const free = await db.query(
      `SELECT b.id FROM beds b
        WHERE b.ward_id = $1 AND b.patient_id IS NULL
        ORDER BY (SELECT count(*) FROM beds n WHERE n.room_id = b.room_id AND n.patient_id IS NOT NULL), b.id
        LIMIT 1`,
      [wardId],
    );
    if (!free.rowCount) throw new ConflictException('no free bed');
    await db.query('UPDATE beds SET patient_id = $1, assigned_at = now() WHERE id = $2', [patientId, free.rows[0].id]);
    return { bedId: free.rows[0].id, patientId };
  }

  private async inTransaction<T>(work: (db: PoolClient) => Promise<T>): Promise<T> {
    const db = await this.pool.connect();
    let broken: Error | undefined;
    try {
      await db.query('BEGIN');
      const result = await work(db);
      await db.query('COMMIT');
      return result;
    } catch (err) {
      await db.query('ROLLBACK').catch((e) => { broken = e; });
      throw err;
    } finally {
      db.release(broken);
    }
  }
}
