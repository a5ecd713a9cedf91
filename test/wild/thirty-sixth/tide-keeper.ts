import { Redis } from 'ioredis';
import pg from 'pg';
import { randomUUID } from 'node:crypto';
import { setTimeout as nap } from 'node:timers/promises';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 3_000 });
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });

// both keys on one slot, the instance runs with appendfsync always
const SEAT = '{tide}:seat';
const EPOCH = '{tide}:epoch';
const TERM_MS = 12_000;

const CAMPAIGN = `
local sitting = redis.call('GET', KEYS[1])
if sitting == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return tonumber(redis.call('GET', KEYS[2]))
end
if sitting then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('INCR', KEYS[2])
`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

const ROLLUP = `
INSERT INTO tide_hourly (station, hour, mean_cm, peak_cm, epoch)
SELECT station, date_trunc('hour', taken_at), avg(level_cm), max(level_cm), $1::bigint
FROM tide_raw
WHERE taken_at >= date_trunc('hour', now()) - interval '3 hours'
GROUP BY 1, 2
ON CONFLICT (station, hour) DO UPDATE
SET mean_cm = EXCLUDED.mean_cm, peak_cm = EXCLUDED.peak_cm, epoch = EXCLUDED.epoch
WHERE tide_hourly.epoch <= EXCLUDED.epoch
`;

export class TideKeeper {
  readonly #me = randomUUID();

  async #campaign(): Promise<number> {
    try {
      const epoch = await redis.eval(CAMPAIGN, 2, SEAT, EPOCH, this.#me, TERM_MS);
      return Number(epoch);
    } catch (err) {
      console.warn('tide: no word from redis', err);
      return 0;
    }
  }

  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const epoch = await this.#campaign();
      if (epoch > 0) {
        try {
          // may take longer than a term at spring tide, rows carry the epoch
          const { rowCount } = await db.query(ROLLUP, [epoch]);
          console.info(`tide: epoch ${epoch} wrote ${rowCount ?? 0} rows`);
        } catch (err) {
          console.error('tide: rollup failed', err);
        }
      }
      await nap(4_000, undefined, { signal: stop }).catch(() => undefined);
    }
    await redis.eval(RESIGN, 1, SEAT, this.#me).catch(() => undefined);
  }
}

const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
process.once('SIGINT', () => stop.abort());

await new TideKeeper().run(stop.signal);
redis.disconnect();
await db.end();
