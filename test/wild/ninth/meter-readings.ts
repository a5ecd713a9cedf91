import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

export interface Sql {
  run(text: string, ...params: unknown[]): Promise<{ changes: number }>;
  one<T>(text: string, ...params: unknown[]): Promise<T | undefined>;
}

const LEASE_MS = 15_000;
const HOUR_MS = 3_600_000;

// The number is drawn in the same script that takes the lock, so numbers are
// in the order of the leases. We have two million meters, most of which report
// once and then are silent, so the counters are not kept for ever.
const OPEN = `
if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
  local n = redis.call('INCR', KEYS[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
  return n
end
return 0`;

const CLOSE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class StaleLease extends Error {}

/**
 * Books readings of a meter. Redis serialises, the meter row fences:
 *   claim  - fence < mine -> mine
 *   write  - only while fence = mine
 * so a worker that was suspended for longer than its lease is turned away.
 */
export default class MeterReadings {
  readonly #redis: Redis;
  readonly #sql: Sql;

  constructor(redis: Redis, sql: Sql) {
    this.#redis = redis;
    this.#sql = sql;
  }

  async book(meter: string, reading: number): Promise<'booked' | 'busy' | 'old'> {
    const lock = `meter:{${meter}}:lock`;
    const token = randomUUID();
    const close = () =>
      this.#redis.eval(CLOSE, 1, lock, token).catch((e) => console.warn(`meter ${meter}: close: ${e.message}`));

    let fence: number;
    try {
      fence = (await this.#redis.eval(OPEN, 2, lock, `meter:{${meter}}:fence`, token, LEASE_MS, HOUR_MS)) as number;
    } catch (err) {
      void close();
      throw err;
    }
    if (fence === 0) return 'busy';

    try {
      await this.#claim(meter, fence);
      const row = await this.#sql.one<{ last: number; total: number }>('SELECT last, total FROM meter WHERE id = ?', meter);
      if (!row) throw new Error(`no meter ${meter}`);
      if (reading <= row.last) return 'old';
      await this.#write(meter, fence, reading, row.total + (reading - row.last));
      return 'booked';
    } finally {
      await close();
    }
  }

  async #claim(meter: string, fence: number): Promise<void> {
    const { changes } = await this.#sql.run('UPDATE meter SET fence = ? WHERE id = ? AND fence < ?', fence, meter, fence);
    if (changes !== 1) throw new StaleLease(`meter ${meter}: ${fence} comes too late`);
  }

  async #write(meter: string, fence: number, last: number, total: number): Promise<void> {
    const { changes } = await this.#sql.run(
      'UPDATE meter SET last = ?, total = ? WHERE id = ? AND fence = ?',
      last,
      total,
      meter,
      fence,
    );
    if (changes !== 1) throw new StaleLease(`meter ${meter}: ${fence} has been replaced`);
  }
}
