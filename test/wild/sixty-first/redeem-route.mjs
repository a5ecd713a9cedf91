import { randomUUID } from 'node:crypto';
import { NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import pg from 'pg';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL,
  token: process.env.UPSTASH_REDIS_REST_TOKEN,
  retry: false,
});
const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 2_000,
});

const LOCK_TTL_MS = 20_000;
const WORK_BUDGET_MS = 14_000;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

async function lockCard(code) {
  const key = `giftcard:lock:${code}`;
  const token = randomUUID();
  const validUntil = performance.now() + LOCK_TTL_MS;
  const reply = await redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
  if (reply !== 'OK') return null;
  return { key, token, remaining: () => validUntil - performance.now() };
}

async function unlockCard(lock) {
  try {
    await redis.eval(UNLOCK, [lock.key], [lock.token]);
  } catch (err) {
    console.warn('giftcard unlock failed', lock.key, err);
  }
}

async function storeRedemption(card, orderId, amountCents) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query('UPDATE gift_cards SET balance_cents = $2, last_used_at = now() WHERE id = $1', [
      card.id,
      Number(card.balance_cents) - amountCents,
    ]);
    await client.query('INSERT INTO gift_card_redemptions (card_id, order_id, amount_cents) VALUES ($1, $2, $3)', [
      card.id,
      orderId,
      amountCents,
    ]);
    await client.query('COMMIT');
  } catch (err) {
    await client.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    client.release();
  }
}

export async function POST(request) {
  const { code, orderId, amountCents } = await request.json();
  if (!code || !orderId || !Number.isInteger(amountCents) || amountCents <= 0) {
    return NextResponse.json({ error: 'code, orderId and amountCents are required' }, { status: 400 });
  }

  let lock;
  try {
    lock = await lockCard(code);
  } catch (err) {
    console.error('giftcard lock unavailable', err);
    return NextResponse.json({ error: 'try again later' }, { status: 503 });
  }
  if (!lock) {
    return NextResponse.json({ error: 'card is in use' }, { status: 409, headers: { 'Retry-After': '2' } });
  }

  try {
    const { rows } = await pool.query(
      'SELECT id, balance_cents, expires_at FROM gift_cards WHERE code = $1',
      [code],
    );
    const card = rows[0];
    if (!card || new Date(card.expires_at) < new Date()) {
      return NextResponse.json({ error: 'card is not valid' }, { status: 404 });
    }
    if (Number(card.balance_cents) < amountCents) {
      return NextResponse.json({ error: 'balance too low' }, { status: 422 });
    }
    if (lock.remaining() < WORK_BUDGET_MS) {
      return NextResponse.json({ error: 'try again later' }, { status: 503 });
    }
    await storeRedemption(card, orderId, amountCents);
    return NextResponse.json({ orderId, balanceCents: Number(card.balance_cents) - amountCents });
  } finally {
    await unlockCard(lock);
  }
}
