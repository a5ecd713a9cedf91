/**
 * Idempotent webhook processing on Upstash Redis.
 *
 * Each event id has one hash: `owner` (who is working on it) and `result`
 * (the stored answer). A second delivery gets the stored answer, or a 409
 * while the first one is still being worked on.
 */
import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { logger } from './logger.js';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
  automaticDeserialization: false,
});

const HANDLER_BUDGET_MS = 60_000;
const CLAIM_MS = 10 * 60_000;
const KEEP_RESULT_MS = 3 * 24 * 3600_000;

// A claim repeated with the same owner (HTTP retry of the client) stays ours.
const CLAIM = `
local state = redis.call('HMGET', KEYS[1], 'owner', 'result')
if state[2] then return {'done', state[2]} end
if state[1] and state[1] ~= ARGV[1] then return {'busy', ''} end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'mine', ''}`;

const FINISH = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'result', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

const ABANDON = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
if redis.call('HEXISTS', KEYS[1], 'result') == 1 then return 0 end
return redis.call('DEL', KEYS[1])`;

export type Outcome<T> = { status: 'done'; value: T } | { status: 'busy' };

export async function once<T>(
  id: string,
  handler: (signal: AbortSignal) => Promise<T>,
): Promise<Outcome<T>> {
  const key = `webhook:${id}`;
  const owner = randomUUID();

  const [state, stored] = (await redis.eval(CLAIM, [key], [owner, String(CLAIM_MS)])) as [
    string,
    string,
  ];
  if (state === 'done') return { status: 'done', value: JSON.parse(stored) as T };
  if (state !== 'mine') return { status: 'busy' };

  let value: T;
  try {
    value = await handler(AbortSignal.timeout(HANDLER_BUDGET_MS));
  } catch (err) {
    // Let the next delivery try again right away.
    await redis.eval(ABANDON, [key], [owner]).catch((e: unknown) => {
      logger.warn({ id, e }, 'could not give the claim back, it expires by itself');
    });
    throw err;
  }

  const saved = await redis.eval(
    FINISH,
    [key],
    [owner, JSON.stringify(value ?? null), String(KEEP_RESULT_MS)],
  );
  if (Number(saved) !== 1) logger.error({ id }, 'claim was gone before the result was stored');
  return { status: 'done', value };
}

interface PaymentEvent {
  id: string;
  orderId: string;
  amount: number;
}

/** POST /webhooks/payments */
export async function POST(request: Request): Promise<Response> {
  const event = (await request.json()) as PaymentEvent;

  const outcome = await once(event.id, async (signal) => {
    const res = await fetch(`${process.env.LEDGER_URL}/entries`, {
      method: 'POST',
      signal,
      headers: {
        'content-type': 'application/json',
        'idempotency-key': event.id, // the ledger refuses a second entry by itself
      },
      body: JSON.stringify({ order: event.orderId, amount: event.amount }),
    });
    if (!res.ok) throw new Error(`ledger answered ${res.status}`);
    return (await res.json()) as { entryId: string };
  });

  if (outcome.status === 'busy') {
    return new Response('still processing', { status: 409, headers: { 'retry-after': '15' } });
  }
  return Response.json(outcome.value);
}
