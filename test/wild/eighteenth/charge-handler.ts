import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
  automaticDeserialization: false,
});

const KEEP_SECONDS = 24 * 60 * 60;
const CLAIM_MS = 800;
const CHARGE_MS = 30_000;

export interface Outcome {
  status: number;
  body: string;
}

/** Calls the card processor, which has no idempotency of its own. */
export type Charge = (account: string, body: string, signal: AbortSignal) => Promise<Outcome>;

// Replaces our pending marker by the outcome.
const FINISH = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
  return 1
end
return 0`;

const answer = (outcome: Outcome): Response =>
  new Response(outcome.body, { status: outcome.status, headers: { 'Content-Type': 'application/json' } });

function replay(stored: string | null): Response {
  if (stored === null || stored.startsWith('pending:')) {
    return answer({ status: 409, body: '{"error":"a request with this key is in progress"}' });
  }
  return answer(JSON.parse(stored) as Outcome);
}

export function createChargeHandler(charge: Charge) {
  return async function handleCharge(request: Request): Promise<Response> {
    // Set by the gateway, which has authenticated the caller.
    const account = request.headers.get('X-Account-Id');
    const idempotencyKey = request.headers.get('Idempotency-Key');
    if (!account || !idempotencyKey) {
      return answer({ status: 400, body: '{"error":"Idempotency-Key is required"}' });
    }
    const body = await request.text();
    const key = `charge:${account}:${idempotencyKey}`;
    const pending = `pending:${randomUUID()}`;

    // The SDK retries for a long time, checkout has to stay responsive.
    const claimed = await Promise.race([
      redis.set(key, pending, { nx: true, ex: KEEP_SECONDS }),
      sleep(CLAIM_MS, undefined, { ref: false }),
    ]);
    if (claimed === null) {
      const stored = await redis.get<string>(key);
      // After a retry inside the SDK the marker may be our own.
      if (stored !== pending) return replay(stored);
    }

    let outcome: Outcome;
    try {
      outcome = await charge(account, body, AbortSignal.timeout(CHARGE_MS));
    } catch (err) {
      // May have gone through or not: this key is burnt, support sorts it out.
      console.error('charge %s: outcome unknown', key, err);
      outcome = { status: 502, body: '{"error":"outcome unknown, do not retry"}' };
    }

    try {
      await redis.eval(FINISH, [key], [pending, JSON.stringify(outcome), String(KEEP_SECONDS)]);
    } catch (err) {
      // The marker stays pending, so a repeated request gets a 409 and no second charge.
      console.error('charge %s: outcome not stored', key, err);
    }
    return answer(outcome);
  };
}
