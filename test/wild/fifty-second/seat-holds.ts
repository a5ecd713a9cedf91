import { randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import { z } from 'zod';
import { pool } from '../db';
import { redis } from '../lib/node-redis';
import { logger } from '../config/logger';

const HOLD_MS = 10 * 60_000;
const CONFIRM_MS = 60_000;

const ENSURE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1
`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0
`;

const seatSchema = z.object({ eventId: z.string().uuid(), seat: z.string().regex(/^[A-Z]{1,2}\d{1,3}$/) });
const holdSchema = seatSchema.extend({ holdToken: z.string().uuid() });

const holdKey = (eventId: string, seat: string) => `seat-hold:${eventId}:${seat}`;

async function releaseHold(key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, { keys: [key], arguments: [token] });
  } catch (err) {
    logger.warn({ err, key }, 'could not release seat hold');
  }
}

export const seats = new Hono<{ Variables: { userId: string } }>();

seats.onError((err, c) => {
  logger.error({ err, path: c.req.path }, 'seat request failed');
  return c.json({ error: 'internal' }, 500);
});

seats.post('/holds', async (c) => {
  const body = seatSchema.safeParse(await c.req.json().catch(() => null));
  if (!body.success) return c.json({ error: 'invalid_body' }, 400);

  const { eventId, seat } = body.data;
  const key = holdKey(eventId, seat);
  const holdToken = randomUUID();
  const reply = await redis.set(key, holdToken, { NX: true, PX: HOLD_MS });
  if (reply !== 'OK') return c.json({ error: 'seat_held' }, 409);

  let available = false;
  try {
    const sold = await pool.query('SELECT 1 FROM tickets WHERE event_id = $1 AND seat = $2', [eventId, seat]);
    available = sold.rowCount === 0;
  } finally {
    if (!available) await releaseHold(key, holdToken);
  }
  if (!available) return c.json({ error: 'seat_sold' }, 409);
  return c.json({ holdToken, expiresInMs: HOLD_MS }, 201);
});

seats.post('/holds/confirm', async (c) => {
  const body = holdSchema.safeParse(await c.req.json().catch(() => null));
  if (!body.success) return c.json({ error: 'invalid_body' }, 400);

  const { eventId, seat, holdToken } = body.data;
  const userId = c.get('userId');
  const key = holdKey(eventId, seat);
  const held = await redis.eval(ENSURE, { keys: [key], arguments: [holdToken, String(CONFIRM_MS)] });
  if (Number(held) !== 1) return c.json({ error: 'hold_expired' }, 410);

  // tickets has a unique index on (event_id, seat)
  const inserted = await pool.query(
    `INSERT INTO tickets (event_id, seat, user_id, status)
     VALUES ($1, $2, $3, 'awaiting_payment')
     ON CONFLICT (event_id, seat) DO NOTHING
     RETURNING id`,
    [eventId, seat, userId],
  );
  if (inserted.rowCount === 1) {
    await releaseHold(key, holdToken);
    return c.json({ ticketId: inserted.rows[0].id }, 201);
  }

  const existing = await pool.query('SELECT id, user_id FROM tickets WHERE event_id = $1 AND seat = $2', [eventId, seat]);
  await releaseHold(key, holdToken);
  if (existing.rows[0]?.user_id === userId) return c.json({ ticketId: existing.rows[0].id });
  return c.json({ error: 'seat_sold' }, 409);
});

seats.delete('/holds', async (c) => {
  const body = holdSchema.safeParse(await c.req.json().catch(() => null));
  if (!body.success) return c.json({ error: 'invalid_body' }, 400);
  await releaseHold(holdKey(body.data.eventId, body.data.seat), body.data.holdToken);
  return c.body(null, 204);
});
