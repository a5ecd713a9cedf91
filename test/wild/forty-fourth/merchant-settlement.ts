import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import axios from 'axios';
import express, { type NextFunction, type Request, type Response } from 'express';
import { Pool } from 'pg';
import { logger } from '@acme/logging';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});
const pool = new Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 10_000, connectionTimeoutMillis: 5_000 });
const bank = axios.create({ baseURL: process.env.BANK_API_URL, timeout: 60_000 });

const LOCK_TTL_S = 180;
const REQUEST_LIMIT_MS = 25_000; // the load balancer hangs up at 30 s

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

class LockedError extends Error {}
class RequestTimeout extends Error {}

function limit<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new RequestTimeout(`no result after ${ms} ms`)), ms);
  });
  return Promise.race([work, expired]).finally(() => clearTimeout(timer));
}

async function exclusively<T>(merchantId: string, fn: () => Promise<T>): Promise<T> {
  const key = `settlement:${merchantId}`;
  const token = randomUUID();
  const reply = await redis.set(key, token, { nx: true, ex: LOCK_TTL_S });
  if (reply !== 'OK') throw new LockedError(merchantId);
  try {
    return await limit(fn(), REQUEST_LIMIT_MS);
  } finally {
    await redis.eval(RELEASE, [key], [token]).catch((err) => logger.warn({ err, key }, 'unlock failed'));
  }
}

interface Settlement {
  id: string;
  grossCents: number;
  feeCents: number;
  netCents: number;
  bankReference: string;
}

async function settle(merchantId: string): Promise<Settlement | null> {
  const { rows: [merchant] } = await pool.query<{ iban: string; fee_bps: number }>(
    'SELECT iban, fee_bps FROM merchants WHERE id = $1 AND settlement_enabled',
    [merchantId],
  );
  if (!merchant) return null;

  const { rows } = await pool.query<{ id: string; amount_cents: string }>(
    `SELECT id, amount_cents FROM captures WHERE merchant_id = $1 AND settlement_id IS NULL AND captured_at < now() - interval '1 day'`,
    [merchantId],
  );
  const grossCents = rows.reduce((sum, r) => sum + Number(r.amount_cents), 0);
  if (grossCents <= 0) return null;

  const id = randomUUID();
  const feeCents = Math.ceil((grossCents * merchant.fee_bps) / 10_000);
  const netCents = grossCents - feeCents;

  const { data } = await bank.post<{ reference: string }>('/credit-transfers', {
    endToEndId: id,
    creditorIban: merchant.iban,
    amountCents: netCents,
  });

  await pool.query(
    `WITH s AS (
       INSERT INTO settlements (id, merchant_id, gross_cents, fee_cents, bank_reference) VALUES ($1, $2, $3, $4, $5) RETURNING id)
     UPDATE captures SET settlement_id = (SELECT id FROM s) WHERE id = ANY($6)`,
    [id, merchantId, grossCents, feeCents, data.reference, rows.map((r) => r.id)],
  );
  return { id, grossCents, feeCents, netCents, bankReference: data.reference };
}

export const settlementRouter = express.Router();

// Pressed by merchants ("pay out now") and called by the evening batch.
settlementRouter.post('/merchants/:merchantId/settlements', async (req: Request, res: Response, next: NextFunction) => {
  const { merchantId } = req.params;
  try {
    const settlement = await exclusively(merchantId, () => settle(merchantId));
    if (!settlement) {
      res.status(204).end();
      return;
    }
    logger.info({ merchantId, settlement: settlement.id, netCents: settlement.netCents }, 'settled');
    res.status(201).json(settlement);
  } catch (err) {
    if (err instanceof LockedError) {
      res.status(409).json({ error: 'a settlement is in progress' });
    } else if (err instanceof RequestTimeout) {
      res.status(504).json({ error: 'bank is slow at the moment, please try again' });
    } else {
      next(err);
    }
  }
});
