import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

// app/api/credits/spend/route.ts
const redis = Redis.fromEnv();

const LOCK_TTL_MS = 10_000;
const REMEMBER_SECONDS = 24 * 60 * 60;

// Writes balance and idempotency marker together, only while we hold the lock and
// only if what we read is still true (reads may come from a lagging replica).
const COMMIT = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then
  return 0
end
if redis.call("EXISTS", KEYS[3]) == 1 or (redis.call("GET", KEYS[2]) or "0") ~= ARGV[2] then
  return 0
end
redis.call("SET", KEYS[2], ARGV[3])
redis.call("SET", KEYS[3], ARGV[3], "EX", ARGV[4])
return 1
`;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

/**
 * Spends credits of the signed-in user (the gateway sets x-user-id).
 * Requests of one user are serialised by a lock, and every write is checked
 * against the lock inside Redis.
 */
export async function POST(req: Request): Promise<Response> {
  const userId = req.headers.get('x-user-id');
  const requestId = req.headers.get('idempotency-key');
  if (!userId || !requestId) {
    return Response.json({ error: 'x-user-id and idempotency-key are required' }, { status: 400 });
  }
  const body = (await req.json().catch(() => null)) as { credits?: unknown } | null;
  const credits = body?.credits;
  if (typeof credits !== 'number' || !Number.isSafeInteger(credits) || credits <= 0) {
    return Response.json({ error: 'credits must be a positive integer' }, { status: 400 });
  }

  const lockKey = `lock:{credits:${userId}}`;
  const balanceKey = `balance:{credits:${userId}}`;
  const doneKey = `done:{credits:${userId}}:${requestId}`;
  const token = randomUUID();

  const acquired = await redis.set(lockKey, token, { nx: true, px: LOCK_TTL_MS });
  if (acquired !== 'OK') {
    return Response.json({ error: 'Another request is in progress' }, {
      status: 423,
      headers: { 'retry-after': '1' },
    });
  }

  try {
    // A repeated request gets the same answer as the first one.
    const earlier = await redis.get<number>(doneKey);
    if (earlier !== null) return Response.json({ balance: Number(earlier), repeated: true });

    const balance = Number((await redis.get<number>(balanceKey)) ?? 0);
    if (balance < credits) return Response.json({ error: 'Not enough credits', balance }, { status: 402 });

    const next = balance - credits;
    const committed = await redis.eval(
      COMMIT,
      [lockKey, balanceKey, doneKey],
      [token, String(balance), String(next), String(REMEMBER_SECONDS)],
    );
    if (committed !== 1) {
      // Lock expired, stale read or repeated commit. Retrying with the same key is safe.
      return Response.json({ error: 'Please retry' }, { status: 409 });
    }
    return Response.json({ balance: next });
  } finally {
    await redis.eval(RELEASE, [lockKey], [token]).catch((err: unknown) => {
      console.warn('Could not release the credits lock, it will expire', err);
    });
  }
}
