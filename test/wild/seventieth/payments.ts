import express from 'express';
import { Redis } from '@upstash/redis';
import { randomUUID } from 'node:crypto';
import { charge } from './stripe-gateway.js';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

const LOCK_TTL_MS = 60_000;
const CHARGE_TIMEOUT_MS = 20_000;
const WAIT_MS = 30_000;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

type Receipt = { chargeId: string; amount: number };

async function acquire(key: string): Promise<string | null> {
  const token = randomUUID();
  const deadline = Date.now() + WAIT_MS;
  do {
    const res = await redis.set(key, token, { nx: true, px: LOCK_TTL_MS });
    if (res === 'OK') return token;
    await new Promise((r) => setTimeout(r, 150));
  } while (Date.now() < deadline);
  return null;
}

async function release(key: string, token: string): Promise<void> {
  try {
    await redis.eval(UNLOCK, [key], [token]);
  } catch (err) {
    console.warn('unlock failed, lock expires by itself', err);
  }
}

/** Charges an order once, however often the client submits it. */
export async function payOrder(orderId: string, amount: number): Promise<Receipt> {
  const receiptKey = `receipt:${orderId}`;
  const existing = await redis.get<Receipt>(receiptKey);
  if (existing) return existing;

  const lockKey = `lock:pay:${orderId}`;
  const token = await acquire(lockKey);
  if (!token) throw new Error('payment in progress, try again later');

  try {
    const { id } = await charge({
      orderId,
      amount,
      signal: AbortSignal.timeout(CHARGE_TIMEOUT_MS),
    });
    const receipt: Receipt = { chargeId: id, amount };
    await redis.set(receiptKey, receipt);
    return receipt;
  } finally {
    await release(lockKey, token);
  }
}

export const payments = express.Router();

payments.post('/orders/:id/pay', express.json(), async (req, res, next) => {
  try {
    const amount = Number(req.body.amount);
    if (!Number.isInteger(amount) || amount <= 0) {
      res.status(400).json({ error: 'bad amount' });
      return;
    }
    res.json(await payOrder(req.params.id, amount));
  } catch (err) {
    next(err);
  }
});
