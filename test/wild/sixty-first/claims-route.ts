import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import axios from 'axios';
import { Hono } from 'hono';
import { Pool } from 'pg';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
  retry: false,
});
const pool = new Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 4_000 });

const LOCK_TTL_MS = 25_000;
const PRICING_URL = process.env.PRICING_URL ?? 'http://pricing.claims.svc/v2/price';

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

interface Lease {
  remainingMs(): number;
  release(): Promise<void>;
}

interface ClaimRow {
  fence: string;
  member_id: string;
  plan_code: string;
  lines: unknown[];
}

async function lockClaim(claimId: string): Promise<Lease | null> {
  const key = `claims:adjudication:${claimId}`;
  const token = randomUUID();
  const validUntil = performance.now() + LOCK_TTL_MS;
  const reply = await redis.set(key, token, { nx: true, px: LOCK_TTL_MS });
  if (reply !== 'OK') return null;
  return {
    remainingMs: () => Math.max(0, Math.floor(validUntil - performance.now())),
    async release() {
      try {
        await redis.eval(RELEASE, [key], [token]);
      } catch (err) {
        console.warn('could not release claim lock', { claimId, err });
      }
    },
  };
}

// Every run bumps the claim's fence; only the run that bumped it last may write the outcome.
async function openClaim(claimId: string): Promise<ClaimRow | undefined> {
  const { rows } = await pool.query<ClaimRow>(
    `UPDATE claims SET fence = fence + 1
      WHERE id = $1 AND status = 'SUBMITTED'
      RETURNING fence, member_id, plan_code, lines`,
    [claimId],
  );
  return rows[0];
}

async function closeClaim(claimId: string, fence: string, allowedCents: number, deniedLines: number): Promise<boolean> {
  const res = await pool.query(
    `UPDATE claims
        SET status = 'ADJUDICATED', allowed_cents = $3, denied_lines = $4, adjudicated_at = now()
      WHERE id = $1 AND fence = $2 AND status = 'SUBMITTED'`,
    [claimId, fence, allowedCents, deniedLines],
  );
  return res.rowCount === 1;
}

export const claims = new Hono();

claims.post('/claims/:id/adjudicate', async (c) => {
  const claimId = c.req.param('id');
  const lease = await lockClaim(claimId);
  if (!lease) {
    c.header('Retry-After', '10');
    return c.json({ error: 'claim is being adjudicated' }, 409);
  }

  try {
    const claim = await openClaim(claimId);
    if (!claim) return c.json({ error: 'claim is not open' }, 404);

    const { data } = await axios.post(
      PRICING_URL,
      { claimId, memberId: claim.member_id, plan: claim.plan_code, lines: claim.lines },
      { timeout: 10_000, signal: AbortSignal.timeout(lease.remainingMs()) },
    );

    const written = await closeClaim(claimId, claim.fence, data.allowedCents, data.deniedLines);
    if (!written) return c.json({ error: 'superseded by a newer run' }, 409);
    return c.json({ claimId, allowedCents: data.allowedCents, deniedLines: data.deniedLines });
  } finally {
    await lease.release();
  }
});

claims.onError((err, c) => {
  console.error('adjudication failed', err);
  return c.json({ error: 'adjudication failed' }, 503);
});
