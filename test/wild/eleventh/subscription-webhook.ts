import { Redis } from '@upstash/redis';

// Next.js route handler. Stripe sends events out of order and more than once;
// the events of one customer have to be applied one after the other.

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL ?? 'http://127.0.0.1:8079',
  token: process.env.UPSTASH_REDIS_REST_TOKEN ?? 'dev',
});

const LOCK_SECONDS = 20;
const SEEN_SECONDS = 7 * 24 * 3600;

type Plan = { status: string; seats: number; version: number };
type StripeEvent = {
  id: string;
  created: number;
  data: { object: { customer: string; status: string; quantity: number } };
};

const APPLY = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("set", KEYS[2], ARGV[2])
redis.call("set", KEYS[3], "1", "EX", ARGV[3])
return 1`;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end
return 0`;

export async function POST(req: Request): Promise<Response> {
  const event = (await req.json()) as StripeEvent;
  const { customer, status, quantity } = event.data.object;

  const lockKey = `sub:{${customer}}:lock`;
  const planKey = `sub:{${customer}}:plan`;
  const seenKey = `sub:{${customer}}:seen:${event.id}`;

  const owner = `evt-${crypto.randomUUID()}`;
  const got = await redis.set(lockKey, owner, { nx: true, ex: LOCK_SECONDS });
  if (got !== 'OK') {
    // Stripe tries again later
    return Response.json({ error: 'busy' }, { status: 503, headers: { 'retry-after': '5' } });
  }

  try {
    if (await redis.exists(seenKey)) {
      return Response.json({ received: true, duplicate: true });
    }

    const before = (await redis.get<Plan>(planKey)) ?? { status: 'none', seats: 0, version: 0 };
    if (event.created < before.version) {
      return Response.json({ received: true, stale: true });
    }
    const after: Plan = { status, seats: quantity, version: event.created };

    // One script: nothing is written unless the lock is ours at that very moment.
    const applied = await redis.eval(
      APPLY,
      [lockKey, planKey, seenKey],
      [owner, JSON.stringify(after), String(SEEN_SECONDS)],
    );
    if (applied !== 1) {
      return Response.json({ error: 'lock expired, not applied' }, { status: 503 });
    }
    return Response.json({ received: true });
  } finally {
    try {
      await redis.eval(UNLOCK, [lockKey], [owner]);
    } catch (err) {
      console.warn('unlock failed, key will expire', err);
    }
  }
}
