import { Redis } from "@upstash/redis";
import { Hono } from "hono";
import Stripe from "stripe";
import { activateSubscription, cancelSubscription, recordPayment } from "../db";
import { counter } from "../metrics";

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!);

/** Stripe repeats the delivery of an event for up to three days. */
const EVENT_TTL_SECONDS = 60 * 60 * 24 * 3;

/** Raised when a webhook does not carry a valid signature. */
export class InvalidSignatureError extends Error {
  readonly name = "InvalidSignatureError";
}

/**
 * Makes sure that every Stripe event is handled exactly once, no matter how often and on how
 * many instances it is delivered.
 *
 * @returns true for the first delivery of the event
 */
async function claimEvent(eventId: string): Promise<boolean> {
  const result = await redis.set(`stripe:event:${eventId}`, new Date().toISOString(), {
    nx: true,
    ex: EVENT_TTL_SECONDS,
  });
  return result === "OK";
}

async function verify(payload: string, signature: string | undefined): Promise<Stripe.Event> {
  try {
    return await stripe.webhooks.constructEventAsync(
      payload,
      signature ?? "",
      process.env.STRIPE_WEBHOOK_SECRET!,
    );
  } catch (cause) {
    throw new InvalidSignatureError("Webhook signature could not be verified", { cause });
  }
}

async function handleEvent(event: Stripe.Event): Promise<void> {
  switch (event.type) {
    case "customer.subscription.created":
      await activateSubscription(event.data.object.id, event.data.object.customer as string);
      break;
    case "customer.subscription.deleted":
      await cancelSubscription(event.data.object.id);
      break;
    case "invoice.paid":
      await recordPayment(event.data.object.id!, event.data.object.amount_paid);
      break;
    default:
      counter("stripe_event_ignored", { type: event.type });
  }
}

export const webhooks = new Hono();

webhooks.post("/stripe", async (c) => {
  let event: Stripe.Event;
  try {
    event = await verify(await c.req.text(), c.req.header("stripe-signature"));
  } catch (error) {
    console.warn(error);
    return c.json({ error: "invalid signature" }, 400);
  }

  if (!(await claimEvent(event.id))) {
    counter("stripe_event_duplicate", { type: event.type });
    return c.json({ received: true, duplicate: true });
  }

  try {
    await handleEvent(event);
    counter("stripe_event_handled", { type: event.type });
    return c.json({ received: true });
  } catch (error) {
    // Anything but a 2xx makes Stripe deliver the event again later.
    console.error(`Handling ${event.type} (${event.id}) failed`, error);
    return c.json({ error: "temporary failure" }, 500);
  }
});
