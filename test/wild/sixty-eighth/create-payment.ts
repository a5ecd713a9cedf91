import { createHash, randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Context } from 'koa';
import type { Logger } from 'pino';

const PENDING_TTL_MS = 60_000;
const DONE_TTL_MS = 24 * 60 * 60 * 1000;
const PSP_TIMEOUT_MS = 20_000;

const BEGIN = `
local seen = redis.call('GET', KEYS[1])
if seen then return seen end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false`;

const FINISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`;

const ABANDON = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

type Marker =
  | { state: 'pending'; owner: string; fingerprint: string }
  | { state: 'done'; fingerprint: string; status: number; body: unknown };

export interface PspResult {
  accepted: boolean;
  paymentId: string;
  declineCode?: string;
}

export interface Psp {
  /** The provider replays its first answer for a reference it has seen (kept for 7 days). */
  charge(
    input: { amount: number; currency: string; source: string },
    opts: { reference: string; signal: AbortSignal },
  ): Promise<PspResult>;
}

interface PaymentBody {
  amount: number;
  currency: string;
  source: string;
}

/**
 * POST /payments. The marker turns away a second request while the first is still running and replays
 * the stored answer after that. The charge itself is made once by the provider, whatever becomes of
 * the marker, because `reference` is a function of merchant and idempotency key.
 */
export function createPayment(deps: { redis: Redis; psp: Psp; log: Logger }) {
  const { redis, psp, log } = deps;

  return async function handle(ctx: Context): Promise<void> {
    const idempotencyKey = ctx.get('Idempotency-Key');
    if (!/^[\w-]{16,64}$/.test(idempotencyKey)) {
      ctx.throw(400, 'Idempotency-Key is missing or malformed');
    }
    const merchantId: string = ctx.state.merchant.id;
    const body = (ctx.request as unknown as { body: PaymentBody }).body;
    const fingerprint = createHash('sha256')
      .update(JSON.stringify([body.amount, body.currency, body.source]))
      .digest('hex');

    const key = `idem:payments:${merchantId}:${idempotencyKey}`;
    const mine = JSON.stringify({ state: 'pending', owner: randomUUID(), fingerprint } satisfies Marker);

    // An error of Redis here is a 500 for the client, who retries.
    const seen = (await redis.eval(BEGIN, 1, key, mine, PENDING_TTL_MS)) as string | null;
    if (seen !== null) {
      replay(ctx, JSON.parse(seen) as Marker, fingerprint);
      return;
    }

    let result: PspResult;
    try {
      result = await psp.charge(
        { amount: body.amount, currency: body.currency, source: body.source },
        { reference: `${merchantId}.${idempotencyKey}`, signal: AbortSignal.timeout(PSP_TIMEOUT_MS) },
      );
    } catch (err) {
      // The outcome is unknown. We let the client ask again under the same key; the provider
      // answers with the first charge if there was one.
      log.error({ err, merchantId }, 'charge without outcome');
      await redis.eval(ABANDON, 1, key, mine).catch((e: unknown) => log.warn({ err: e, key }, 'marker left'));
      ctx.status = 502;
      ctx.set('Retry-After', '2');
      ctx.body = { error: 'provider_unavailable' };
      return;
    }

    const status = result.accepted ? 201 : 402;
    const answer = result.accepted
      ? { id: result.paymentId }
      : { id: result.paymentId, error: result.declineCode };
    const done = JSON.stringify({ state: 'done', fingerprint, status, body: answer } satisfies Marker);

    try {
      if ((await redis.eval(FINISH, 1, key, mine, done, DONE_TTL_MS)) !== 1) {
        // Somebody else runs under this key now. They get the same charge from the provider.
        log.warn({ key }, 'marker expired before the answer');
      }
    } catch (err) {
      log.warn({ err, key }, 'answer not stored');
    }

    ctx.status = status;
    ctx.body = answer;
  };
}

function replay(ctx: Context, marker: Marker, fingerprint: string): void {
  if (marker.fingerprint !== fingerprint) {
    ctx.status = 422;
    ctx.body = { error: 'idempotency_key_reused' };
    return;
  }
  if (marker.state === 'pending') {
    ctx.status = 409;
    ctx.set('Retry-After', '1');
    ctx.body = { error: 'in_progress' };
    return;
  }
  ctx.status = marker.status;
  ctx.set('Idempotent-Replay', 'true');
  ctx.body = marker.body;
}
