import { randomUUID } from 'node:crypto';
import express, { type Request, type Response, type NextFunction } from 'express';
import Redis from 'ioredis';
import { Pool } from 'pg';
import { z } from 'zod';
import { logger } from './logger';

const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 2 });
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  statement_timeout: 3_000,
  connectionTimeoutMillis: 2_000,
});

// At most six statements of 3 s each plus 2 s to get a connection.
const LOCK_TTL_MS = 30_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

class LoanBusyError extends Error {}

async function withLock<T>(key: string, fn: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  let held = false;
  for (let attempt = 0; attempt < 5 && !held; attempt++) {
    held = (await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) === 'OK';
    if (!held) await new Promise((r) => setTimeout(r, 150 + Math.random() * 150));
  }
  if (!held) throw new LoanBusyError(key);
  try {
    return await fn();
  } finally {
    try {
      await redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      logger.warn({ err, key }, 'lock release failed, it will expire');
    }
  }
}

const Body = z.object({ condition: z.enum(['good', 'damaged']), conservator: z.string().min(2) });

async function returnLoan(loanId: string, body: z.infer<typeof Body>) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const { rows } = await client.query(
      'SELECT id, object_id, status, version FROM loans WHERE id = $1',
      [loanId],
    );
    const loan = rows[0];
    if (!loan) {
      await client.query('ROLLBACK');
      return { code: 404, body: { error: 'unknown loan' } };
    }
    if (loan.status !== 'out') {
      await client.query('ROLLBACK');
      return { code: 409, body: { error: `loan is ${loan.status}` } };
    }
    const next = body.condition === 'damaged' ? 'in_conservation' : 'returned';
    const res = await client.query(
      `UPDATE loans SET status = $1, returned_by = $2, version = version + 1
        WHERE id = $3 AND version = $4`,
      [next, body.conservator, loanId, loan.version],
    );
    if (res.rowCount !== 1) {
      await client.query('ROLLBACK');
      return { code: 409, body: { error: 'loan changed meanwhile' } };
    }
    await client.query(
      'INSERT INTO outbox (topic, payload) VALUES ($1, $2)',
      ['loan.returned', JSON.stringify({ loanId, objectId: loan.object_id, next })],
    );
    await client.query('COMMIT');
    return { code: 200, body: { loanId, status: next } };
  } catch (err) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    client.release();
  }
}

export const router = express.Router();

router.post('/loans/:id/return', async (req: Request, res: Response, next: NextFunction) => {
  const parsed = Body.safeParse(req.body);
  if (!parsed.success) return res.status(400).json(parsed.error.flatten());
  try {
    const out = await withLock(`lock:loan:${req.params.id}`, () => returnLoan(req.params.id, parsed.data));
    return res.status(out.code).json(out.body);
  } catch (err) {
    if (err instanceof LoanBusyError) return res.status(423).json({ error: 'loan is being processed' });
    return next(err);
  }
});
