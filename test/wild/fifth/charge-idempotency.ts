import { Redis } from '@upstash/redis';
import { randomUUID } from 'node:crypto';

// Idempotency-Key handling for POST /charges (edge function, hence Upstash REST).
const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

const KEEP_SECONDS = 24 * 60 * 60;

const SETTLE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
  return 1
end
return 0`;

const FORGET = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

interface Stored {
  status: number;
  body: unknown;
}

/** Thrown by the gateway client only when the request was never sent out. */
export class NotSentError extends Error {}

export interface Gateway {
  charge(input: { amount: number; currency: string; source: string }, reference: string): Promise<Stored>;
}

async function claim(key: string, mark: string): Promise<'mine' | 'running' | Stored> {
  const set = await redis.set(key, mark, { nx: true, ex: KEEP_SECONDS });
  if (set === 'OK') return 'mine';

  const current = await redis.get<string | Stored>(key);
  // the REST client retries on network errors, so our first try may have made it
  if (current === mark) return 'mine';
  if (current && typeof current === 'object') return current;
  return 'running';
}

export async function handleCharge(req: Request, gateway: Gateway, accountId: string): Promise<Response> {
  const idem = req.headers.get('idempotency-key');
  if (!idem || idem.length > 100) return Response.json({ error: 'Idempotency-Key required' }, { status: 400 });

  const key = `idem:charge:${accountId}:${idem}`;
  const mark = `pending:${randomUUID()}`;
  const input = (await req.json()) as { amount: number; currency: string; source: string };

  let state: Awaited<ReturnType<typeof claim>>;
  try {
    state = await claim(key, mark);
  } catch (err) {
    console.error('idempotency store down', err);
    // nothing was charged yet, don't leave a mark behind if it did get there
    await redis.eval(FORGET, [key], [mark]).catch(() => undefined);
    return Response.json({ error: 'try again later' }, { status: 503 });
  }
  if (state === 'running') return Response.json({ error: 'in progress' }, { status: 409 });
  if (state !== 'mine') return Response.json(state.body, { status: state.status, headers: { 'x-replayed': '1' } });

  let result: Stored;
  try {
    result = await gateway.charge(input, `${accountId}-${idem}`);
  } catch (err) {
    if (err instanceof NotSentError) {
      await redis.eval(FORGET, [key], [mark]).catch((e) => console.error('forget failed', key, e));
      return Response.json({ error: 'gateway unreachable' }, { status: 502 });
    }
    // Could have gone through. Leave the mark where it is, reconciliation sorts it out.
    console.error('charge outcome unknown', key, err);
    return Response.json({ error: 'outcome unknown' }, { status: 504 });
  }

  await redis
    .eval(SETTLE, [key], [mark, JSON.stringify(result)])
    .catch((e) => console.error('could not store charge result', key, e));
  return Response.json(result.body, { status: result.status });
}
