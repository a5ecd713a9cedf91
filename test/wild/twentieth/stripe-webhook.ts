import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL ?? '',
  token: process.env.UPSTASH_REDIS_REST_TOKEN ?? '',
});

const CLAIM_MS = 60_000;
const WORK_MS = 40_000;
const DONE_SECONDS = 7 * 24 * 3600;

const MARK_DONE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], 'done', 'EX', ARGV[2])
  return 1
end
return 0`;

const DROP_CLAIM = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

interface WebhookRequest {
  body: { id: string; type: string; data: unknown };
}

interface WebhookResponse {
  status(code: number): WebhookResponse;
  send(body: string): void;
}

// The ledger drops a second call with the same Idempotency-Key, so a delivery
// whose outcome we could not record may safely be attempted again.
async function forwardToLedger(event: WebhookRequest['body'], signal: AbortSignal): Promise<void> {
  const res = await fetch(`${process.env.LEDGER_URL}/events`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': event.id },
    body: JSON.stringify(event),
    signal,
  });
  if (!res.ok) throw new Error(`ledger answered ${res.status}`);
}

async function dropClaim(key: string, claim: string): Promise<void> {
  try {
    await redis.eval(DROP_CLAIM, [key], [claim]);
  } catch (err) {
    console.warn('claim stays until it expires', key, err);
  }
}

export async function handleStripeWebhook(req: WebhookRequest, res: WebhookResponse): Promise<void> {
  const event = req.body;
  const key = `stripe:event:${event.id}`;
  const claim = `processing:${randomUUID()}`;

  // Budget starts before the claim is sent and is well below its lifetime.
  const signal = AbortSignal.timeout(WORK_MS);

  let claimed: string | null;
  try {
    claimed = await redis.set(key, claim, { nx: true, px: CLAIM_MS });
  } catch (err) {
    console.error('cannot claim event', event.id, err);
    await dropClaim(key, claim);
    res.status(503).send('try again');
    return;
  }

  if (claimed !== 'OK') {
    const state = await redis.get<string>(key).catch(() => null);
    if (state === 'done') {
      res.status(200).send('duplicate');
    } else {
      // Someone is at it right now. Stripe redelivers on a non-2xx answer.
      res.status(409).send('in progress');
    }
    return;
  }

  try {
    await forwardToLedger(event, signal);
  } catch (err) {
    console.error('event failed', event.id, err);
    // Only our own claim goes, so that the redelivery can try again at once.
    await dropClaim(key, claim);
    res.status(500).send('failed');
    return;
  }

  try {
    const marked = await redis.eval(MARK_DONE, [key], [claim, String(DONE_SECONDS)]);
    if (marked !== 1) console.warn('claim lapsed before it could be marked', event.id);
  } catch (err) {
    // The work is done: do not drop the claim. At worst a redelivery reaches the ledger again.
    console.warn('could not mark event', event.id, err);
  }
  res.status(200).send('ok');
}
