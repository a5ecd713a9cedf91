import { Redis } from '@upstash/redis';
import { ulid } from 'ulid';
import type { Context } from 'hono';
import { sql } from '../db';

const redis = Redis.fromEnv();
const LOCK_TTL_MS = 10_000;

// Lock and fence share a hash tag. The fence counter is never reset.
const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

interface Held {
  token: string;
  fence: number;
}

const keysOf = (memberId: string): [string, string] => [
  `loyalty:{${memberId}}:lock`,
  `loyalty:{${memberId}}:fence`,
];

async function acquire(memberId: string): Promise<Held | null> {
  const token = ulid();
  const fence = await redis.eval<[string, string], number>(ACQUIRE, keysOf(memberId), [token, String(LOCK_TTL_MS)]);
  return fence > 0 ? { token, fence } : null;
}

async function release(memberId: string, held: Held): Promise<void> {
  try {
    await redis.eval<[string], number>(RELEASE, [keysOf(memberId)[0]], [held.token]);
  } catch (err) {
    console.warn('loyalty lock not released, expires by itself', { memberId, err });
  }
}

interface RedeemBody {
  rewardId: string;
  requestId: string;
}

export async function redeem(c: Context): Promise<Response> {
  const memberId = c.req.param('memberId');
  const body = await c.req.json<RedeemBody>();

  const held = await acquire(memberId);
  if (!held) {
    c.header('Retry-After', '1');
    return c.json({ error: 'another redemption is in progress' }, 409);
  }

  try {
    const [member] = await sql`SELECT points, tier FROM members WHERE id = ${memberId}`;
    const [reward] = await sql`SELECT price, min_tier FROM rewards WHERE id = ${body.rewardId}`;
    if (!member || !reward) return c.json({ error: 'not found' }, 404);
    if (member.tier < reward.min_tier) return c.json({ error: 'tier too low' }, 403);

    const price = Math.round(reward.price * (member.tier >= 3 ? 0.9 : 1));
    if (member.points < price) return c.json({ error: 'not enough points' }, 402);

    const done = await sql.begin(async (tx) => {
      // A holder with a later fence has been here, or the points are gone: nothing is written then.
      const updated = await tx`
        UPDATE members
           SET points = points - ${price}, fence = ${held.fence}
         WHERE id = ${memberId} AND fence < ${held.fence} AND points >= ${price}
        RETURNING points`;
      if (updated.length === 0) return null;
      await tx`
        INSERT INTO redemptions (request_id, member_id, reward_id, points)
        VALUES (${body.requestId}, ${memberId}, ${body.rewardId}, ${price})`;
      return updated[0].points as number;
    });

    if (done === null) return c.json({ error: 'superseded, try again' }, 409);
    return c.json({ points: done });
  } finally {
    await release(memberId, held);
  }
}
