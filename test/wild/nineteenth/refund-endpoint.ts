import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { Redis } from "@upstash/redis";

// KEYS: claim, result. The REST client may repeat a request, so our own claim counts as free.
const CLAIM = `
local result = redis.call('GET', KEYS[2])
if result then return { 2, result } end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return { 0, '' } end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return { 1, '' }`;

const COMPLETE = `
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3], 'NX')
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/** A refund call takes seconds; after this time a claim left by a dead function is free again. */
const CLAIM_TTL = 45_000;
const KEEP_RESULT = 24 * 3600;
const MARGIN = 1_000;

export interface Payments {
  /** The provider knows the idempotency key too and books one refund per key. */
  refund(charge: string, cents: number, idempotencyKey: string, signal: AbortSignal): Promise<{ id: string }>;
}

interface Req {
  headers: Record<string, string | undefined>;
  body: { charge: string; cents: number };
}
interface Res {
  status: number;
  body: unknown;
}

/** POST /refunds with an Idempotency-Key header */
export function refundEndpoint(payments: Payments, redis = Redis.fromEnv({ automaticDeserialization: false })) {
  return async (req: Req): Promise<Res> => {
    const idem = req.headers["idempotency-key"];
    if (!idem) return { status: 400, body: { error: "Idempotency-Key is missing" } };
    const keys = [`{refund:${idem}}:claim`, `{refund:${idem}}:result`];
    const token = randomUUID();

    try {
      const askedAt = performance.now();
      const [state, stored] = (await redis.eval(CLAIM, keys, [token, String(CLAIM_TTL)])) as [number | string, string];
      if (Number(state) === 2) return { status: 200, body: JSON.parse(stored) };
      if (Number(state) !== 1) return { status: 409, body: { error: "this refund is being processed" } };

      const left = Math.floor(askedAt + CLAIM_TTL - MARGIN - performance.now());
      if (left <= 0) return { status: 503, body: { error: "try again" } };
      const done = await payments.refund(req.body.charge, req.body.cents, idem, AbortSignal.timeout(left));

      const result = { refund: done.id };
      await redis.eval(COMPLETE, keys, [token, JSON.stringify(result), String(KEEP_RESULT)]);
      return { status: 201, body: result };
    } finally {
      // nothing left to drop after COMPLETE
      await redis.eval(DROP, [keys[0]], [token]).catch((err) => console.warn("claim stays until its TTL", err));
    }
  };
}
