import os from 'node:os';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));

const pool = new Pool({ connectionTimeoutMillis: 2_000, statement_timeout: 3_000, query_timeout: 3_000 });

// unique for every pod start
const OWNER = `${os.hostname()}:${process.pid}:${randomUUID()}`;

const TTL_MS = 30_000;
const WAIT_MS = 5_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

/**
 * Runs the method under a lock named after its first argument. Decorated
 * methods may call each other (moveHold -> releaseHold), the inner call sees
 * that we hold the lock and just runs.
 */
export function Exclusive(prefix: string) {
  return function <This, Args extends [string, ...unknown[]], R>(
    method: (this: This, ...args: Args) => Promise<R>,
    _ctx: ClassMethodDecoratorContext<This, (this: This, ...args: Args) => Promise<R>>,
  ) {
    return async function (this: This, ...args: Args): Promise<R> {
      const key = `${prefix}:${args[0]}`;
      const giveUp = Date.now() + WAIT_MS;

      while ((await redis.set(key, OWNER, { NX: true, PX: TTL_MS })) !== 'OK') {
        if ((await redis.get(key)) === OWNER) {
          return method.apply(this, args);
        }
        if (Date.now() > giveUp) throw new Error(`${key} is busy`);
        await sleep(50 + Math.random() * 100);
      }

      try {
        return await method.apply(this, args);
      } finally {
        await redis
          .eval(RELEASE, { keys: [key], arguments: [OWNER] })
          .catch((err) => console.warn('release failed', key, err));
      }
    };
  };
}

export class SeatHolds {
  @Exclusive('performance')
  async hold(performanceId: string, seat: string, customer: string): Promise<boolean> {
    const { rows } = await pool.query('SELECT customer FROM holds WHERE performance_id = $1 AND seat = $2', [
      performanceId,
      seat,
    ]);
    if (rows.length) return rows[0].customer === customer;
    await pool.query('INSERT INTO holds (performance_id, seat, customer) VALUES ($1, $2, $3)', [
      performanceId,
      seat,
      customer,
    ]);
    return true;
  }

  @Exclusive('performance')
  async releaseHold(performanceId: string, seat: string): Promise<void> {
    await pool.query('DELETE FROM holds WHERE performance_id = $1 AND seat = $2', [performanceId, seat]);
  }

  @Exclusive('performance')
  async moveHold(performanceId: string, from: string, to: string, customer: string): Promise<boolean> {
    if (!(await this.hold(performanceId, to, customer))) return false;
    await this.releaseHold(performanceId, from);
    return true;
  }
}

export const ready = redis.connect().then(() => new SeatHolds());
