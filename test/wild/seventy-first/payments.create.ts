import { createHash, randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { z } from 'zod';

const PENDING_MS = 30_000;
const REPLAY_MS = 24 * 60 * 60 * 1000;

const PaymentBody = z.object({
  orderId: z.string().min(1).max(64),
  amountCents: z.number().int().positive(),
  currency: z.enum(['EUR', 'USD', 'GBP']),
});
type PaymentBody = z.infer<typeof PaymentBody>;

export interface Psp {
  /** Same idempotencyKey => same charge, the PSP keeps keys for good. */
  charge(input: PaymentBody & { idempotencyKey: string }): Promise<{ chargeId: string }>;
}

interface PaymentRow {
  id: string;
  request_hash: string;
  status: 'pending' | 'captured';
  charge_id: string | null;
}

const SETTLE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0`;

const FORGET = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

class KeyReused extends Error {}

export function paymentsApp(redis: Redis, pool: Pool, psp: Psp) {
  const app = new Hono<{ Variables: { tenantId: string } }>();

  app.post('/payments', async (c) => {
    const idem = c.req.header('idempotency-key');
    if (!idem || idem.length > 200) return c.json({ error: 'idempotency_key_required' }, 400);

    const parsed = PaymentBody.safeParse(await c.req.json().catch(() => null));
    if (!parsed.success) return c.json({ error: 'invalid_body' }, 400);

    const tenant = c.get('tenantId');
    const hash = createHash('sha256').update(JSON.stringify(parsed.data)).digest('hex');
    const slot = `idem:${tenant}:${idem}`;
    const mark = `pending:${randomUUID()}`;

    if ((await redis.set(slot, mark, 'PX', PENDING_MS, 'NX')) !== 'OK') {
      const seen = await redis.get(slot);
      if (seen?.startsWith('done:')) {
        const stored = JSON.parse(seen.slice(5)) as { hash: string; body: object };
        if (stored.hash !== hash) return c.json({ error: 'idempotency_key_reused' }, 422);
        c.header('idempotent-replay', 'true');
        return c.json(stored.body, 201);
      }
      c.header('retry-after', '2');
      return c.json({ error: 'in_progress' }, 409);
    }

    try {
      const body = await pay(pool, psp, tenant, idem, hash, parsed.data);
      await redis
        .eval(SETTLE, 1, slot, mark, `done:${JSON.stringify({ hash, body })}`, REPLAY_MS)
        .catch(() => undefined); // the payments row answers the next retry
      return c.json(body, 201);
    } catch (err) {
      await redis.eval(FORGET, 1, slot, mark).catch(() => undefined);
      if (err instanceof KeyReused) return c.json({ error: 'idempotency_key_reused' }, 422);
      throw err;
    }
  });

  return app;
}

async function pay(pool: Pool, psp: Psp, tenant: string, idem: string, hash: string, input: PaymentBody) {
  await pool.query(
    `INSERT INTO payments (id, tenant_id, idempotency_key, request_hash, order_id, amount_cents, currency, status)
     VALUES ($1, $2, $3, $4, $5, $6, $7, 'pending')
     ON CONFLICT (tenant_id, idempotency_key) DO NOTHING`,
    [randomUUID(), tenant, idem, hash, input.orderId, input.amountCents, input.currency],
  );
  const { rows } = await pool.query<PaymentRow>(
    `SELECT id, request_hash, status, charge_id FROM payments
      WHERE tenant_id = $1 AND idempotency_key = $2`,
    [tenant, idem],
  );
  const row = rows[0];
  if (row.request_hash !== hash) throw new KeyReused();
  if (row.status === 'captured') return { id: row.id, chargeId: row.charge_id };

  // The row id doubles as the PSP key: a second attempt gets the first one's charge back.
  const { chargeId } = await psp.charge({ ...input, idempotencyKey: row.id });
  await pool.query(
    `UPDATE payments SET status = 'captured', charge_id = $2 WHERE id = $1 AND status = 'pending'`,
    [row.id, chargeId],
  );
  return { id: row.id, chargeId };
}
