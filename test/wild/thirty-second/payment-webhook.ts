// app/api/webhooks/payments/route.ts
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { Redis } from "@upstash/redis";

const redis = Redis.fromEnv();

const LOCK_TTL_MS = 20_000;
const WORK_MS = 12_000;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

interface Order {
  id: string;
  status: "open" | "paid";
  paidCents: number;
  payments: string[];
}

function signatureOk(body: string, header: string | null): boolean {
  const expected = createHmac("sha256", process.env.WEBHOOK_SECRET ?? "").update(body).digest();
  const given = Buffer.from(header ?? "", "hex");
  return given.length === expected.length && timingSafeEqual(given, expected);
}

async function lockOrder(key: string, token: string): Promise<boolean> {
  try {
    const reply = await redis.set(key, token, { nx: true, px: LOCK_TTL_MS });
    return reply === "OK";
  } catch (err) {
    console.warn("order lock not available", err);
    return true;
  }
}

async function orders<T>(path: string, init: RequestInit): Promise<T> {
  const res = await fetch(`${process.env.ORDERS_API}${path}`, init);
  if (!res.ok) throw new Error(`orders api ${path}: ${res.status}`);
  return (await res.json()) as T;
}

export async function POST(request: Request): Promise<Response> {
  const body = await request.text();
  if (!signatureOk(body, request.headers.get("x-signature"))) {
    return new Response("bad signature", { status: 400 });
  }
  const event = JSON.parse(body) as { paymentId: string; orderId: string; amountCents: number; totalCents: number };

  const key = `lock:order:${event.orderId}`;
  const token = `hook-${randomUUID()}`;
  const signal = AbortSignal.timeout(WORK_MS);

  // The provider delivers again when the answer is not a 2xx.
  if (!(await lockOrder(key, token))) return new Response("busy", { status: 409 });

  try {
    const order = await orders<Order>(`/orders/${event.orderId}`, { signal });
    if (order.payments.includes(event.paymentId)) return Response.json({ ok: true, duplicate: true });

    const paidCents = order.paidCents + event.amountCents;
    await orders<Order>(`/orders/${order.id}`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        ...order,
        paidCents,
        payments: [...order.payments, event.paymentId],
        status: paidCents >= event.totalCents ? "paid" : "open",
      }),
      signal,
    });
    return Response.json({ ok: true });
  } catch (err) {
    console.error(`payment ${event.paymentId} not booked`, err);
    return new Response("try again", { status: 500 });
  } finally {
    await redis.eval(RELEASE, [key], [token]).catch((err) => console.warn(`release of ${key} failed`, err));
  }
}
