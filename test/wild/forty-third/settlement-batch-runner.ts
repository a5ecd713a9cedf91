import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import Redis from 'ioredis';
import { Pool } from 'pg';

/**
 * End-of-day settlement. Runs on every node of the batch tier; exactly one of them
 * is allowed to post a given value date at any moment.
 *
 * Timings (see OPS-2214):
 *   lease 30s, renewed every 7s; no new posting is started in the last 10s of a lease.
 *   One posting is a single statement, at most 2s for a connection and 5s to execute.
 */
const LEASE_MS = 30_000;
const RENEW_MS = 7_000;
const QUIET_MS = 10_000;

const RENEW = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return 0`;

const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0`;

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000, maxRetriesPerRequest: 1 });
const pool = new Pool({
  connectionString: process.env.LEDGER_DSN,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 5_000,
  query_timeout: 5_000,
});

export class LeaseLostError extends Error {}

export interface Lease {
  /** Throws unless there is enough lease left to start one more posting. */
  assertHeld(): void;
}

export async function withLease<T>(key: string, work: (lease: Lease) => Promise<T>): Promise<T | undefined> {
  const token = randomUUID();
  const askedAt = performance.now();
  if ((await redis.set(key, token, 'PX', LEASE_MS, 'NX')) !== 'OK') return undefined;

  let validUntil = askedAt + LEASE_MS - QUIET_MS;
  let lost = false;

  const renewal = setInterval(async () => {
    const at = performance.now();
    try {
      const renewed = await redis.eval(RENEW, 1, key, token, LEASE_MS);
      if (renewed === 1) validUntil = at + LEASE_MS - QUIET_MS;
      else lost = true;
    } catch (err) {
      // Not fatal in itself: validUntil simply does not move.
      console.warn({ key, err }, 'lease renewal failed');
    }
  }, RENEW_MS);

  try {
    return await work({
      assertHeld() {
        if (lost || performance.now() >= validUntil) throw new LeaseLostError(key);
      },
    });
  } finally {
    clearInterval(renewal);
    await redis.eval(RELEASE, 1, key, token).catch((err) => console.warn({ key, err }, 'lease release failed'));
  }
}

export async function settleValueDate(valueDate: string): Promise<number | undefined> {
  return withLease(`settlement:${valueDate}`, async (lease) => {
    const { rows } = await pool.query<{ id: string }>(
      `SELECT id FROM instruction WHERE value_date = $1 AND state = 'MATCHED' ORDER BY id`,
      [valueDate],
    );
    let posted = 0;
    for (const { id } of rows) {
      lease.assertHeld();
      await pool.query('SELECT post_instruction($1)', [id]);
      posted += 1;
    }
    return posted;
  });
}
