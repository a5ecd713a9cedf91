import { randomUUID } from 'node:crypto';
import { Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import { Pool } from 'pg';

const connection = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
const pool = new Pool({ connectionString: process.env.DATABASE_URL });

const LOCK_MS = 60_000;
const WORK_MS = 45_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

function deadline<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${ms} ms`)), ms);
  });
  return Promise.race([work, limit]).finally(() => clearTimeout(timer));
}

/** One holder per show; the work gets 45s, which leaves a quarter of the TTL as headroom. */
async function withShowLock<T>(showId: string, fn: () => Promise<T>): Promise<T> {
  const key = `royalty:show:${showId}`;
  const token = randomUUID();
  const ok = await connection.set(key, token, 'PX', LOCK_MS, 'NX');
  if (ok !== 'OK') throw new Error(`show ${showId} is being settled`);
  try {
    return await deadline(fn(), WORK_MS, `settling ${showId}`);
  } finally {
    await connection.eval(RELEASE, 1, key, token).catch((err) => console.warn('release', showId, err));
  }
}

async function transfer(hostId: string, cents: number, memo: string): Promise<string> {
  const res = await fetch(`${process.env.PAYOUT_URL}/transfers`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ payee: hostId, cents, memo }),
  });
  if (!res.ok) throw new Error(`payout api ${res.status}`);
  return ((await res.json()) as { id: string }).id;
}

async function settleShow(showId: string, month: string): Promise<number> {
  const { rows } = await pool.query(
    `SELECT s.host_id, s.share, r.cents
       FROM show_hosts s JOIN revenue r ON r.show_id = s.show_id AND r.month = $2
      WHERE s.show_id = $1
        AND NOT EXISTS (SELECT 1 FROM payouts p WHERE p.show_id = $1 AND p.month = $2 AND p.host_id = s.host_id)
      ORDER BY s.host_id`,
    [showId, month],
  );
  for (const row of rows) {
    const cents = Math.floor(Number(row.cents) * Number(row.share));
    const transferId = await transfer(row.host_id, cents, `${showId} ${month}`);
    await pool.query(
      'INSERT INTO payouts (show_id, month, host_id, cents, transfer_id) VALUES ($1, $2, $3, $4, $5)',
      [showId, month, row.host_id, cents, transferId],
    );
  }
  return rows.length;
}

// jobs are added with attempts: 5 and a 10s fixed backoff
export const worker = new Worker(
  'royalties',
  async (job: Job<{ showId: string; month: string }>) => {
    const { showId, month } = job.data;
    const paid = await withShowLock(showId, () => settleShow(showId, month));
    return { paid };
  },
  { connection, concurrency: 8 },
);

worker.on('failed', (job, err) => console.error('royalty job', job?.id, err.message));
