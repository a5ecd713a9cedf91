import { createHash, randomUUID } from 'node:crypto';
import express from 'express';
import { createClient } from 'redis';
import pg from 'pg';
import { Queue } from 'bullmq';
import { z } from 'zod';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('[payouts] redis', err.message));
await redis.connect();

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const queue = new Queue('payouts', { connection: { url: process.env.REDIS_URL } });

const PENDING_MS = 15_000;
const KEEP_MS = 24 * 3600 * 1000;

const Body = z.object({
  beneficiaryId: z.string().uuid(),
  amountCents: z.number().int().positive(),
  currency: z.enum(['EUR', 'GBP', 'USD']),
});

const IF_MINE_EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const IF_MINE_STORE = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1 end return 0`;
const IF_MINE_DROP = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

const run = (script, key, ...args) => redis.eval(script, { keys: [key], arguments: args.map(String) });

const fingerprint = (body) => createHash('sha256').update(JSON.stringify(body)).digest('hex');

// The row is what makes a payout unique: (tenant_id, idempotency_key) has a unique index.
// The Redis entry spares the database and answers repeats with the first response.
async function createPayout(tenantId, idemKey, print, body) {
  const ins = await pool.query(
    `INSERT INTO payouts (id, tenant_id, idempotency_key, fingerprint, beneficiary_id, amount_cents, currency, status)
     VALUES ($1, $2, $3, $4, $5, $6, $7, 'queued')
     ON CONFLICT (tenant_id, idempotency_key) DO NOTHING`,
    [randomUUID(), tenantId, idemKey, print, body.beneficiaryId, body.amountCents, body.currency],
  );
  const { rows } = await pool.query(
    `SELECT id, status, fingerprint FROM payouts WHERE tenant_id = $1 AND idempotency_key = $2`,
    [tenantId, idemKey],
  );
  const row = rows[0];
  if (row.fingerprint !== print) return { status: 422, body: { error: 'idempotency key was used with another body' } };
  // The worker moves a payout from queued to sent with a conditional UPDATE, a second job finds nothing to do.
  if (row.status === 'queued') await queue.add('send', { payoutId: row.id }, { jobId: `payout-${row.id}` });
  return { status: ins.rowCount ? 201 : 200, body: { id: row.id } };
}

export const router = express.Router();

router.post('/payouts', express.json(), async (req, res, next) => {
  const idemKey = req.get('Idempotency-Key');
  if (!idemKey) return res.status(400).json({ error: 'Idempotency-Key is required' });
  const parsed = Body.safeParse(req.body);
  if (!parsed.success) return res.status(400).json({ error: parsed.error.issues });

  const tenantId = req.tenant.id;
  const print = fingerprint(parsed.data);
  const key = `idem:${tenantId}:payouts:${idemKey}`;
  const mine = JSON.stringify({ state: 'pending', print, token: randomUUID() });
  let beat;
  let stored = false;
  let claimed = false;
  try {
    claimed = (await redis.set(key, mine, { NX: true, PX: PENDING_MS })) === 'OK';
    if (!claimed) {
      const raw = await redis.get(key);
      const seen = raw ? JSON.parse(raw) : { state: 'pending', print };
      if (seen.print !== print) return res.status(422).json({ error: 'idempotency key was used with another body' });
      if (seen.state === 'done') return res.status(seen.status).set('Idempotent-Replay', 'true').json(seen.body);
      return res.status(409).set('Retry-After', '2').json({ error: 'request is in progress' });
    }
    beat = setInterval(() => {
      run(IF_MINE_EXTEND, key, mine, PENDING_MS).catch((err) => console.warn('[payouts] extend', err.message));
    }, PENDING_MS / 3);

    const out = await createPayout(tenantId, idemKey, print, parsed.data);
    clearInterval(beat);
    if (out.status < 400) {
      const done = JSON.stringify({ state: 'done', print, ...out });
      await run(IF_MINE_STORE, key, mine, done, KEEP_MS)
        .then(() => { stored = true; })
        .catch((err) => console.warn('[payouts] store', err.message));
    }
    return res.status(out.status).json(out.body);
  } catch (err) {
    return next(err);
  } finally {
    clearInterval(beat);
    if (claimed && !stored) {
      await run(IF_MINE_DROP, key, mine).catch((err) => console.warn('[payouts] drop', err.message));
    }
  }
});
