import { randomUUID } from 'node:crypto';
import { DelayedError, Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';

import { config } from './config';

const log = pino({ name: 'invoice-worker' });
const redis = new Redis(config.redisUrl, { commandTimeout: 2_000 });
const pool = new Pool({ connectionString: config.databaseUrl, statement_timeout: 10_000 });

const LOCK_TTL_MS = 30_000;
const SAFETY_MS = 3_000;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class LockBusyError extends Error {}
export class LockLostError extends Error {}

export interface Lease {
  signal: AbortSignal;
  assertHeld(): void;
}

async function releaseQuietly(key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, 1, key, token);
  } catch (err) {
    log.warn({ err, key }, 'release failed, key will expire on its own');
  }
}

export async function withLock<T>(key: string, work: (lease: Lease) => Promise<T>): Promise<T> {
  const token = randomUUID();
  const sentAt = performance.now();
  let reply: 'OK' | null;
  try {
    reply = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
  } catch (err) {
    await releaseQuietly(key, token);
    throw err;
  }
  if (reply !== 'OK') throw new LockBusyError(`${key} is held elsewhere`);

  const controller = new AbortController();
  let validUntil = sentAt + LOCK_TTL_MS - SAFETY_MS;
  let finished = false;
  let expiryTimer: NodeJS.Timeout | undefined;
  let renewTimer: NodeJS.Timeout | undefined;

  const lose = (reason: string) => {
    if (!controller.signal.aborted) controller.abort(new LockLostError(`${key}: ${reason}`));
  };
  const armExpiry = () => {
    clearTimeout(expiryTimer);
    expiryTimer = setTimeout(() => lose('not renewed in time'), Math.max(0, validUntil - performance.now()));
  };
  const renew = async () => {
    const renewSentAt = performance.now();
    try {
      const renewed = await redis.eval(RENEW, 1, key, token, LOCK_TTL_MS);
      if (finished || controller.signal.aborted) return;
      if (renewed !== 1) return lose('owned by someone else');
      validUntil = renewSentAt + LOCK_TTL_MS - SAFETY_MS;
      armExpiry();
    } catch (err) {
      log.warn({ err, key }, 'lock renewal failed, will retry');
    }
    if (!finished && !controller.signal.aborted) renewTimer = setTimeout(renew, LOCK_TTL_MS / 6);
  };

  const lease: Lease = {
    signal: controller.signal,
    assertHeld() {
      if (performance.now() >= validUntil) lose('validity elapsed');
      controller.signal.throwIfAborted();
    },
  };

  armExpiry();
  renewTimer = setTimeout(renew, LOCK_TTL_MS / 6);
  try {
    lease.assertHeld();
    return await work(lease);
  } finally {
    finished = true;
    clearTimeout(expiryTimer);
    clearTimeout(renewTimer);
    await releaseQuietly(key, token);
  }
}

async function runInvoices(tenantId: string, period: string, lease: Lease): Promise<number> {
  const { rows } = await pool.query<{ id: string }>(
    'SELECT id FROM accounts WHERE tenant_id = $1 AND billable ORDER BY id', [tenantId]);
  let created = 0;
  for (const account of rows) {
    lease.assertHeld();
    const res = await pool.query(
      `INSERT INTO invoices (account_id, period, total_cents)
       SELECT $1, $2, COALESCE(SUM(amount_cents), 0) FROM usage_lines WHERE account_id = $1 AND period = $2
       ON CONFLICT (account_id, period) DO NOTHING`, [account.id, period]);
    created += res.rowCount ?? 0;
  }
  return created;
}

export const worker = new Worker(
  'invoice-runs',
  async (job: Job<{ tenantId: string; period: string }>, jobToken?: string) => {
    const { tenantId, period } = job.data;
    try {
      const created = await withLock(`lock:invoices:${tenantId}`, (lease) => runInvoices(tenantId, period, lease));
      log.info({ tenantId, period, created }, 'invoice run done');
      return { created };
    } catch (err) {
      if (!(err instanceof LockBusyError)) throw err;
      await job.moveToDelayed(Date.now() + 30_000, jobToken);
      throw new DelayedError();
    }
  },
  { connection: new Redis(config.redisUrl, { maxRetriesPerRequest: null }), concurrency: 4 },
);
