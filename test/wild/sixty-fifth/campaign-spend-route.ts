import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Request, Response, NextFunction } from 'express';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import type { Logger } from '../logger';

const LOCK_TTL_MS = 15_000;
const QUERY_TIMEOUT_MS = 3_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

interface Deps {
  redis: Redis;
  pool: Pool;
  log: Logger;
}

interface CampaignRow {
  id: string;
  status: string;
  budget_cents: number;
  spent_cents: number;
}

async function lockCampaign(redis: Redis, key: string): Promise<string | null> {
  const token = randomUUID();
  for (let attempt = 0; attempt < 8; attempt++) {
    if ((await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) === 'OK') return token;
    await sleep(50 * (attempt + 1) + Math.random() * 50);
  }
  return null;
}

/**
 * POST /campaigns/:id/spend
 * Called by the bidders for every block of impressions they have bought.
 */
export function spendRoute({ redis, pool, log }: Deps) {
  return async (req: Request, res: Response, next: NextFunction): Promise<void> => {
    try {
      const amount = Number(req.body?.amountCents);
      if (!Number.isSafeInteger(amount) || amount <= 0) {
        res.status(400).json({ error: 'amountCents must be a positive integer' });
        return;
      }

      const found = await pool.query<CampaignRow>({
        text: 'SELECT id, status, budget_cents, spent_cents FROM campaigns WHERE id = $1',
        values: [req.params.id],
        query_timeout: QUERY_TIMEOUT_MS,
      } as never);
      const campaign = found.rows[0];
      if (!campaign) {
        res.status(404).json({ error: 'no such campaign' });
        return;
      }
      if (campaign.status !== 'running') {
        res.status(409).json({ error: `campaign is ${campaign.status}` });
        return;
      }
      // Most refusals happen here, so the bidders do not contend for nothing.
      if (campaign.spent_cents + amount > campaign.budget_cents) {
        res.status(402).json({ error: 'budget exhausted' });
        return;
      }

      const key = `lock:campaign:${campaign.id}:spend`;
      const token = await lockCampaign(redis, key);
      if (!token) {
        res.set('Retry-After', '1').status(503).json({ error: 'campaign is busy' });
        return;
      }

      try {
        const spent = campaign.spent_cents + amount;
        const exhausted = spent >= campaign.budget_cents;
        await pool.query({
          text: 'UPDATE campaigns SET spent_cents = $2, status = $3 WHERE id = $1',
          values: [campaign.id, spent, exhausted ? 'exhausted' : 'running'],
          query_timeout: QUERY_TIMEOUT_MS,
        } as never);
        res.json({ spentCents: spent, remainingCents: campaign.budget_cents - spent });
      } finally {
        await redis
          .eval(RELEASE, 1, key, token)
          .catch((err) => log.warn({ err, key }, 'campaign lock not released'));
      }
    } catch (err) {
      next(err);
    }
  };
}
