import Redis from 'ioredis';
import pg from 'pg';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import winston from 'winston';

const log = winston.createLogger({ transports: [new winston.transports.Console()] });
const redis = new Redis(process.env.REDIS_URL!);

// connect + five statements: at most 3 + 5 * 4 = 23 s, see SERIES_TTL_MS
const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3_000,
  statement_timeout: 3_000,
  query_timeout: 4_000,
});
const SERIES_TTL_MS = 40_000;

const COMPARE_AND_DELETE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

export class SeriesBusy extends Error {}

class SeriesLock implements AsyncDisposable {
  private constructor(
    private readonly key: string,
    private readonly token: string,
  ) {}

  static async take(series: string, patienceMs = 5_000): Promise<SeriesLock> {
    const key = `invoice-series:${series}`;
    const token = randomBytes(16).toString('hex');
    const giveUpAt = Date.now() + patienceMs;
    while ((await redis.set(key, token, 'PX', SERIES_TTL_MS, 'NX')) !== 'OK') {
      if (Date.now() > giveUpAt) throw new SeriesBusy(series);
      await sleep(50 + Math.random() * 100);
    }
    return new SeriesLock(key, token);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      const removed = await redis.eval(COMPARE_AND_DELETE, 1, this.key, this.token);
      if (removed === 0) log.warn('series lock had run out', { key: this.key });
    } catch (err) {
      log.warn('series lock not released', { key: this.key, message: (err as Error).message });
    }
  }
}

export interface Draft {
  id: string;
  series: string;
  totalCents: number;
}

/**
 * Tax law wants numbers without holes, so a database sequence is no option.
 * invoices has a unique index on (series, number).
 */
export async function issue(draft: Draft): Promise<string> {
  await using _lock = await SeriesLock.take(draft.series);

  const client = await pool.connect();
  let failed: Error | undefined;
  try {
    await client.query('begin');
    const { rows } = await client.query<{ next: number }>(
      'select coalesce(max(number), 0) + 1 as next from invoices where series = $1',
      [draft.series],
    );
    const number = rows[0].next;
    await client.query(
      'insert into invoices (series, number, draft_id, total_cents, issued_at) values ($1, $2, $3, $4, now())',
      [draft.series, number, draft.id, draft.totalCents],
    );
    const closed = await client.query("update drafts set state = 'issued' where id = $1 and state = 'open'", [
      draft.id,
    ]);
    if (closed.rowCount !== 1) throw new Error(`draft ${draft.id} is not open`);
    await client.query('commit');
    return `${draft.series}-${String(number).padStart(6, '0')}`;
  } catch (err) {
    failed = err as Error;
    throw err;
  } finally {
    // a connection with an open transaction is closed, not reused
    client.release(failed);
  }
}
