import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

/*
 * CREATE TABLE bins (
 *   id        text PRIMARY KEY,
 *   quantity  integer NOT NULL,
 *   fence     bigint  NOT NULL DEFAULT 0
 * );
 */
interface Sql {
  query<Row>(text: string, params: unknown[]): Promise<{ rowCount: number; rows: Row[] }>;
}

declare module 'ioredis' {
  interface RedisCommander<Context> {
    fencedLock(lock: string, counter: string, token: string, ttl: number): Promise<number | null>;
    fencedUnlock(lock: string, token: string): Promise<number>;
  }
}

export function warehouseRedis(url = process.env.REDIS_URL ?? 'redis://localhost:6379'): Redis {
  const redis = new Redis(url);
  // The number is drawn in the same step as the lock, so a later holder always has a greater one.
  redis.defineCommand('fencedLock', {
    numberOfKeys: 2,
    lua: `
      if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
        return redis.call('INCR', KEYS[2])
      end
      return false`,
  });
  redis.defineCommand('fencedUnlock', {
    numberOfKeys: 1,
    lua: `
      if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
      return 0`,
  });
  return redis;
}

export class BinBusy extends Error {}
export class Overtaken extends Error {}

export interface BinDeps {
  redis: Redis;
  sql: Sql;
  ttlMs?: number;
}

/**
 * Recounts a bin. `recount` asks the scale, which answers in a few seconds, and once in a blue
 * moon after minutes. The lock keeps crews from doing the same work twice; the table has the
 * last word.
 */
export async function recountBin(
  { redis, sql, ttlMs = 60_000 }: BinDeps,
  bin: string,
  recount: (current: number) => Promise<number>,
): Promise<number> {
  const lock = `{bin:${bin}}:lock`;
  const counter = `{bin:${bin}}:fence`;
  const token = randomUUID();

  const fence = await redis.fencedLock(lock, counter, token, ttlMs);
  if (fence === null) throw new BinBusy(bin);

  try {
    // Sign the row first: from here on, any earlier holder's UPDATE matches no row.
    const opened = await sql.query<{ quantity: number }>(
      'UPDATE bins SET fence = $2 WHERE id = $1 AND fence < $2 RETURNING quantity',
      [bin, fence],
    );
    if (opened.rowCount !== 1) throw new Overtaken(`bin ${bin} unknown or already signed past ${fence}`);

    const quantity = await recount(opened.rows[0].quantity);

    const saved = await sql.query(
      'UPDATE bins SET quantity = $3 WHERE id = $1 AND fence = $2',
      [bin, fence, quantity],
    );
    if (saved.rowCount !== 1) throw new Overtaken(`bin ${bin} was signed by a later holder than ${fence}`);
    return quantity;
  } finally {
    await redis.fencedUnlock(lock, token).catch((err) => {
      console.warn(`bin ${bin}: unlock failed, the lock will run out`, err);
    });
  }
}
