import { randomUUID } from "node:crypto";
import { Redis } from "@upstash/redis";

const redis = Redis.fromEnv();

const WEEK = 7 * 24 * 3600;

const UNCLAIM = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

type Once<T> = { ran: boolean; result: T | null };

/**
 * The payment provider delivers every event at least once, sometimes two at the same moment.
 * The effect must happen once.
 *
 * The claim outlives any redelivery (they stop after three days), so a function
 * instance that is frozen or killed never leads to a second run; such events show up
 * as "claimed, no result" in the reconciliation and are looked at by hand.
 *
 * `effect` books in one database transaction: when it throws, nothing was booked.
 */
export async function once<T>(eventId: string, effect: () => Promise<T>): Promise<Once<T>> {
  const key = `evt:${eventId}`;
  const token = randomUUID();

  const claimed = await redis.set(key, token, { nx: true, ex: WEEK });
  if (claimed !== "OK") {
    // a duplicate gets the same body as the first delivery, if there is one yet
    return { ran: false, result: await redis.get<T>(`${key}:result`) };
  }

  try {
    const result = await effect();
    await redis.set(`${key}:result`, result, { ex: WEEK });
    return { ran: true, result };
  } catch (err) {
    // make room for the provider's next delivery
    await redis.eval(UNCLAIM, [key], [token]).catch(() => undefined);
    throw err;
  }
}

type PaymentEvent = { id: string; type: string; account: string; cents: number };
type Ledger = { credit(account: string, cents: number): Promise<{ entry: string }> };

export function paymentWebhook(ledger: Ledger) {
  return async (request: Request): Promise<Response> => {
    const event = (await request.json()) as PaymentEvent;
    if (event.type !== "payment.succeeded") return new Response(null, { status: 204 });
    try {
      const { result } = await once(event.id, () => ledger.credit(event.account, event.cents));
      return Response.json(result ?? { accepted: true });
    } catch (err) {
      console.error("webhook", event.id, err);
      return new Response("retry, please", { status: 500 });
    }
  };
}
