import { createHash, randomUUID } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import { Redis } from '@upstash/redis';

/**
 * Login codes cost us money per SMS. A phone number gets at most `limit` of them in any
 * stretch of `windowMs`; an attempt counts whether or not the carrier accepts it.
 */
export interface OtpWindowOptions {
  limit?: number;
  windowMs?: number;
}

// The log holds one member per admitted attempt, scored with the time of the Redis server.
// The REST client repeats a request whose answer got lost, hence the look at ZSCORE.
const ADMIT = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local window = tonumber(ARGV[1])
if redis.call('ZSCORE', KEYS[1], ARGV[3]) then
  return {1, 0}
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  return {0, tonumber(oldest[2]) + window - now}
end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], window + 1000)
return {1, 0}`;

export async function admitOtp(
  redis: Redis,
  phone: string,
  { limit = 3, windowMs = 10 * 60_000 }: OtpWindowOptions = {},
): Promise<{ admitted: boolean; retryAfterMs: number }> {
  const digest = createHash('sha256').update(phone).digest('hex').slice(0, 32);
  const [admitted, retryAfterMs] = (await redis.eval(
    ADMIT,
    [`otp:window:${digest}`],
    [String(windowMs), String(limit), randomUUID()],
  )) as [number, number];
  return { admitted: admitted === 1, retryAfterMs };
}

function normalisePhone(input: unknown): string | null {
  if (typeof input !== 'string') return null;
  const digits = input.replace(/[\s()./-]/g, '').replace(/^00/, '+');
  return /^\+[1-9]\d{7,14}$/.test(digits) ? digits : null;
}

export function otpWindow(redis: Redis = Redis.fromEnv(), options: OtpWindowOptions = {}) {
  return async function otpWindowMiddleware(req: Request, res: Response, next: NextFunction): Promise<void> {
    const phone = normalisePhone(req.body?.phone);
    if (!phone) {
      res.status(422).json({ error: 'phone must be in international format' });
      return;
    }

    let verdict: Awaited<ReturnType<typeof admitOtp>>;
    try {
      verdict = await admitOtp(redis, phone, options);
    } catch (err) {
      // No counting, no SMS: toll fraud is worse than a minute without logins.
      console.error('otp window unavailable', err);
      res.status(503).json({ error: 'please try again in a moment' });
      return;
    }

    if (!verdict.admitted) {
      const seconds = Math.max(1, Math.ceil(verdict.retryAfterMs / 1000));
      res.setHeader('Retry-After', String(seconds));
      res.status(429).json({ error: 'too many codes requested', retryAfter: seconds });
      return;
    }

    res.locals.phone = phone;
    next();
  };
}
