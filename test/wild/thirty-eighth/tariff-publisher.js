import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import mysql from 'mysql2/promise';

const redis = new Redis(process.env.REDIS_URL);
const db = mysql.createPool({ uri: process.env.MYSQL_URL, connectionLimit: 5 });

const LEASE_MS = 30_000;

redis.defineCommand('leaseTake', {
  numberOfKeys: 2,
  lua: `
    if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
      return redis.call('incr', KEYS[2])
    end
    return 0`,
});
redis.defineCommand('leaseDrop', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('del', KEYS[1])
    end
    return 0`,
});

export class StaleWriter extends Error {}

export class TariffPublisher {
  constructor(zone) {
    this.zone = zone;
    this.lockKey = `{tariff:${zone}}:lease`;
    this.fenceKey = `{tariff:${zone}}:fence`;
  }

  /** Returns false when another publisher is on this zone. */
  async publish(loadSpotPrices) {
    const token = randomUUID();
    const fence = await redis.leaseTake(this.lockKey, this.fenceKey, token, LEASE_MS);
    if (fence === 0) return false;
    try {
      // The exchange can be very slow around noon.
      const hours = await loadSpotPrices(this.zone);
      await this.#write(fence, hours);
      return true;
    } finally {
      await redis.leaseDrop(this.lockKey, token).catch((err) => {
        console.warn('tariff lease of %s not dropped: %s', this.zone, err.message);
      });
    }
  }

  async #write(fence, hours) {
    const conn = await db.getConnection();
    try {
      await conn.beginTransaction();
      const [head] = await conn.execute(
        'UPDATE tariff_heads SET fence = ?, published_at = NOW(3) WHERE zone = ? AND fence < ?',
        [fence, this.zone, fence],
      );
      if (head.affectedRows !== 1) {
        throw new StaleWriter(`zone ${this.zone}: fence ${fence} has been passed`);
      }
      for (const { startsAt, centsPerKwh } of hours) {
        await conn.execute(
          `INSERT INTO tariffs (zone, starts_at, cents_per_kwh) VALUES (?, ?, ?)
           ON DUPLICATE KEY UPDATE cents_per_kwh = VALUES(cents_per_kwh)`,
          [this.zone, startsAt, centsPerKwh],
        );
      }
      await conn.commit();
    } catch (err) {
      await conn.rollback();
      throw err;
    } finally {
      conn.release();
    }
  }
}
