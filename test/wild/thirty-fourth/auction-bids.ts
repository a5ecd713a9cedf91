import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

// A command whose reply got lost is reported, not sent again.
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { autoResendUnfulfilledCommands: false });

const LOCK_TTL_MS = 10_000;

// Takes the lock and draws the next fence in one step. The counter never expires.
const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

// Reading stamps the auction with our fence, so that no earlier holder can write any more.
const OPEN = `
if redis.call('HEXISTS', KEYS[1], 'endsAt') == 0 then return {'missing'} end
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return {'stale'} end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return {'open', redis.call('HGET', KEYS[1], 'price'), redis.call('HGET', KEYS[1], 'endsAt')}`;

// Only the fence of the last reader may write, and only while the auction runs.
const COMMIT = `
if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return 'stale' end
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local endsAt = tonumber(redis.call('HGET', KEYS[1], 'endsAt'))
if now >= endsAt then return 'ended' end
if endsAt - now < 30000 then endsAt = now + 30000 end
redis.call('HSET', KEYS[1], 'price', ARGV[2], 'bidder', ARGV[3], 'endsAt', string.format('%.0f', endsAt))
redis.call('RPUSH', KEYS[2], ARGV[4])
return 'accepted'`;

export type BidResult = 'accepted' | 'too-low' | 'no-credit' | 'ended' | 'missing' | 'busy' | 'stale';

async function hasCredit(bidderId: string, cents: number): Promise<boolean> {
  const res = await fetch(`${process.env.CREDIT_URL}/bidders/${bidderId}/limit`, {
    signal: AbortSignal.timeout(5_000),
  });
  if (!res.ok) throw new Error(`credit service answered ${res.status}`);
  const { limitCents } = (await res.json()) as { limitCents: number };
  return limitCents >= cents;
}

export async function placeBid(auctionId: string, bidderId: string, cents: number): Promise<BidResult> {
  const tag = `{auction:${auctionId}}`;
  const lockKey = `${tag}:lock`;
  const stateKey = `${tag}:state`;
  const token = randomUUID();

  const fence = Number(await redis.eval(ACQUIRE, 2, lockKey, `${tag}:fence`, token, LOCK_TTL_MS));
  if (fence === 0) return 'busy';

  try {
    const [status, price] = (await redis.eval(OPEN, 1, stateKey, fence)) as [string, string | null];
    if (status !== 'open') return status as 'missing' | 'stale';
    if (cents <= Number(price ?? 0)) return 'too-low';
    if (!(await hasCredit(bidderId, cents))) return 'no-credit';

    const entry = JSON.stringify({ bidderId, cents, fence, at: new Date().toISOString() });
    return (await redis.eval(
      COMMIT, 2, stateKey, `${tag}:history`,
      fence, cents, bidderId, entry,
    )) as BidResult;
  } finally {
    await redis.eval(RELEASE, 1, lockKey, token).catch((err) => console.warn('release failed', lockKey, err));
  }
}
