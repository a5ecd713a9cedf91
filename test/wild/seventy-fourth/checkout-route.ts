// app/api/checkout/route.ts
import { createHash, randomUUID } from "node:crypto";
import { Redis } from "@upstash/redis";
import Stripe from "stripe";
import { requireUser } from "../../../lib/auth";
import { priceOfCart } from "../../../lib/carts";

export const runtime = "nodejs";
export const maxDuration = 60;

const redis = Redis.fromEnv();
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!, { timeout: 20_000, maxNetworkRetries: 1 });

/** A request in progress holds its key for this long (longer than maxDuration). */
const PENDING_SECONDS = 120;
/** A finished response is replayed for this long, no longer than Stripe remembers its own key. */
const REPLAY_SECONDS = 60 * 60 * 12;

interface Entry {
  state: "pending" | "done";
  token: string;
  fingerprint: string;
  status?: number;
  body?: unknown;
}

const FINISH = `
local cur = redis.call('GET', KEYS[1])
if cur and cjson.decode(cur).token == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
  return 1
end
return 0`;

const FORGET = `
local cur = redis.call('GET', KEYS[1])
if cur and cjson.decode(cur).token == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export async function POST(request: Request): Promise<Response> {
  const user = await requireUser(request);
  const idempotencyKey = request.headers.get("idempotency-key");
  if (!idempotencyKey || idempotencyKey.length > 100) {
    return Response.json({ error: "An Idempotency-Key header is required" }, { status: 400 });
  }

  const raw = await request.text();
  let cartId: string;
  try {
    cartId = String(JSON.parse(raw).cartId);
  } catch {
    return Response.json({ error: "Malformed body" }, { status: 400 });
  }

  const key = `idem:checkout:${user.id}:${idempotencyKey}`;
  const fingerprint = createHash("sha256").update(raw).digest("hex");
  const token = randomUUID();
  const pending: Entry = { state: "pending", token, fingerprint };

  const claimed = await redis.set(key, pending, { nx: true, ex: PENDING_SECONDS });
  if (claimed !== "OK") {
    const existing = await redis.get<Entry>(key);
    // The REST client repeats a request whose answer was lost, so the entry may be our own.
    if (existing?.token !== token) {
      return answerDuplicate(existing, fingerprint);
    }
  }

  try {
    const amount = await priceOfCart(cartId, user.id);
    // Stripe gets the same key, so a repeat of this request never charges a second time.
    const intent = await stripe.paymentIntents.create(
      { amount, currency: "eur", customer: user.stripeCustomerId, metadata: { cartId } },
      { idempotencyKey: `checkout:${user.id}:${idempotencyKey}` },
    );
    const body = { paymentIntent: intent.id, clientSecret: intent.client_secret };
    await store(key, { ...pending, state: "done", status: 201, body });
    return Response.json(body, { status: 201 });
  } catch (error) {
    await redis.eval(FORGET, [key], [token]).catch((e) => console.warn("idempotency key left to expire", e));
    console.error("checkout failed", error);
    return Response.json({ error: "Payment could not be started, please retry" }, { status: 502 });
  }
}

async function store(key: string, entry: Entry): Promise<void> {
  try {
    await redis.eval(FINISH, [key], [entry.token, JSON.stringify(entry), String(REPLAY_SECONDS)]);
  } catch (error) {
    // The payment exists; a retry of the client will get the same one from Stripe.
    console.warn("could not store the response", error);
  }
}

function answerDuplicate(existing: Entry | null, fingerprint: string): Response {
  if (existing && existing.fingerprint !== fingerprint) {
    return Response.json({ error: "Idempotency-Key was used with another body" }, { status: 422 });
  }
  if (existing?.state === "done") {
    return Response.json(existing.body, {
      status: existing.status,
      headers: { "idempotent-replayed": "true" },
    });
  }
  return Response.json({ error: "Request is in progress" }, { status: 409, headers: { "retry-after": "2" } });
}
