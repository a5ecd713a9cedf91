import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

export interface Sql {
  query<R>(text: string, values: unknown[]): Promise<{ rows: R[]; rowCount: number }>;
}

export interface Reading {
  meterId: string;
  kwh: number;
  readAt: string;
}

const ENTER = `
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
return redis.call('INCR', KEYS[2])`;

const LEAVE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

interface MeterRow {
  total_kwh: number;
  last_reading: number;
  last_read_at: string;
  fence: number;
}

export class StaleFenceError extends Error {}

/** Readings come in through several gateways, often the same meter through two of them. */
export class MeterReadings {
  constructor(
    private readonly redis: Redis,
    private readonly sql: Sql,
    private readonly ttlMs = 5_000,
  ) {}

  /** Returns false when the meter is being worked on; the queue delivers the reading again. */
  async add(reading: Reading): Promise<boolean> {
    const key = `{meter:${reading.meterId}}:lock`;
    const owner = randomUUID();
    try {
      const fence = Number(await this.redis.eval(ENTER, 2, key, `{meter:${reading.meterId}}:fence`, owner, this.ttlMs));
      if (fence === 0) return false;

      const row = await this.load(reading.meterId);
      if (Date.parse(reading.readAt) <= Date.parse(row.last_read_at)) return true;

      const used = reading.kwh - row.last_reading;
      if (used < 0) throw new RangeError(`meter ${reading.meterId} runs backwards`);
      await this.store(reading, row.total_kwh + used, fence);
      return true;
    } finally {
      await this.redis.eval(LEAVE, 1, key, owner).catch((err) => console.warn(`${key} is left to expire`, err));
    }
  }

  private async load(meterId: string): Promise<MeterRow> {
    const { rows } = await this.sql.query<MeterRow>(
      'SELECT total_kwh, last_reading, last_read_at, fence FROM meters WHERE id = $1',
      [meterId],
    );
    if (!rows[0]) throw new Error(`unknown meter ${meterId}`);
    return rows[0];
  }

  private async store(reading: Reading, totalKwh: number, fence: number): Promise<void> {
    const latest = await this.load(reading.meterId);
    if (latest.fence > fence) {
      throw new StaleFenceError(`fence ${fence} of meter ${reading.meterId}, ${latest.fence} was seen`);
    }
    await this.sql.query(
      'UPDATE meters SET total_kwh = $2, last_reading = $3, last_read_at = $4, fence = $5 WHERE id = $1',
      [reading.meterId, totalKwh, reading.kwh, reading.readAt, fence],
    );
  }
}
