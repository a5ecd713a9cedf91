import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Pool } from 'pg';

const redis = new Redis(process.env.REDIS_URL!);
const pool = new Pool({ statement_timeout: 5_000, connectionTimeoutMillis: 3_000 });

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

class RosterLock implements AsyncDisposable {
  private constructor(
    readonly key: string,
    private readonly token: string,
  ) {}

  static async acquire(key: string, ttlMs: number, waitMs = 5_000): Promise<RosterLock> {
    const token = randomUUID();
    const until = Date.now() + waitMs;
    for (;;) {
      if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK') return new RosterLock(key, token);
      if (Date.now() > until) throw new Error(`${key} is busy`);
      await sleep(100 + Math.random() * 100);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await redis.eval(RELEASE, 1, this.key, this.token).catch(() => undefined);
  }
}

interface Shift {
  nurse: string;
  starts: string;
  ends: string;
}

export async function publishRoster(wardId: string, week: string, options: { dryRun?: boolean } = {}): Promise<number> {
  if (!options.dryRun) {
    await using lock = await RosterLock.acquire(`roster:${wardId}:${week}`, 60_000);
    console.info('publishing under', lock.key);
  }

  const draft = await pool.query<Shift>('SELECT nurse, starts, ends FROM draft_shifts WHERE ward = $1 AND week = $2', [
    wardId,
    week,
  ]);
  const current = await pool.query<{ revision: number }>(
    'SELECT coalesce(max(revision), 0) AS revision FROM rosters WHERE ward = $1 AND week = $2',
    [wardId, week],
  );
  const revision = current.rows[0].revision + 1;
  if (options.dryRun) return revision;

  await pool.query('DELETE FROM shifts WHERE ward = $1 AND week = $2', [wardId, week]);
  for (const shift of draft.rows) {
    await pool.query('INSERT INTO shifts (ward, week, nurse, starts, ends) VALUES ($1, $2, $3, $4, $5)', [
      wardId,
      week,
      shift.nurse,
      shift.starts,
      shift.ends,
    ]);
  }
  await pool.query('INSERT INTO rosters (ward, week, revision) VALUES ($1, $2, $3)', [wardId, week, revision]);
  return revision;
}
