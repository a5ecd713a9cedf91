import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Router } from 'express';
import { z } from 'zod';
import { pool } from '../db';
import { redis } from '../redis';
import { logger } from '../config/logger';

const LOCK_TTL_MS = 30_000;
const MAX_WAIT_MS = 4_000;

const RELEASE_SCRIPT = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

const paramsSchema = z.object({
  tenantId: z.string().uuid(),
  draftId: z.string().uuid(),
});

async function acquire(key: string, token: string): Promise<boolean> {
  const deadline = Date.now() + MAX_WAIT_MS;
  for (;;) {
    if ((await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) === 'OK') return true;
    if (Date.now() >= deadline) return false;
    await sleep(80 + Math.floor(Math.random() * 80));
  }
}

async function release(key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE_SCRIPT, 1, key, token);
  } catch (err) {
    logger.warn({ err, key }, 'could not release invoice lock');
  }
}

type IssueResult = { number: number } | { conflict: string };

async function issueInvoice(tenantId: string, draftId: string): Promise<IssueResult> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query("SET LOCAL statement_timeout = '4s'");

    const draft = await client.query(
      `UPDATE invoice_drafts SET status = 'issued'
        WHERE id = $1 AND tenant_id = $2 AND status = 'draft'
        RETURNING total_cents, customer_id`,
      [draftId, tenantId],
    );
    if (draft.rowCount !== 1) {
      await client.query('ROLLBACK');
      return { conflict: 'draft_not_issuable' };
    }

    const counter = await client.query('SELECT last_number FROM invoice_counters WHERE tenant_id = $1', [tenantId]);
    if (counter.rowCount !== 1) throw new Error(`no invoice counter for tenant ${tenantId}`);
    const last = Number(counter.rows[0].last_number);
    const number = last + 1;

    const bumped = await client.query(
      'UPDATE invoice_counters SET last_number = $1 WHERE tenant_id = $2 AND last_number = $3',
      [number, tenantId, last],
    );
    if (bumped.rowCount !== 1) {
      await client.query('ROLLBACK');
      return { conflict: 'number_taken' };
    }

    await client.query(
      `INSERT INTO invoices (tenant_id, number, draft_id, customer_id, total_cents)
       VALUES ($1, $2, $3, $4, $5)`,
      [tenantId, number, draftId, draft.rows[0].customer_id, draft.rows[0].total_cents],
    );
    await client.query('COMMIT');
    return { number };
  } catch (err) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    client.release();
  }
}

export const invoiceRouter = Router();

invoiceRouter.post('/tenants/:tenantId/drafts/:draftId/issue', async (req, res, next) => {
  const params = paramsSchema.safeParse(req.params);
  if (!params.success) return res.status(400).json({ error: 'invalid_params' });

  const { tenantId, draftId } = params.data;
  const key = `lock:invoice-number:${tenantId}`;
  const token = randomUUID();
  try {
    if (!(await acquire(key, token))) {
      return res.status(429).json({ error: 'busy' });
    }
    try {
      const result = await issueInvoice(tenantId, draftId);
      if ('conflict' in result) return res.status(409).json({ error: result.conflict });
      return res.status(201).json(result);
    } finally {
      await release(key, token);
    }
  } catch (err) {
    return next(err);
  }
});
