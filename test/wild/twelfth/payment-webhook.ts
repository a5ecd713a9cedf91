import { randomUUID } from 'node:crypto';
import type { Redis } from '@upstash/redis';

/**
 * The payment provider delivers every event at least once, often two copies
 * within the same second. Copies that arrive while the first is being booked
 * get a 409 and are delivered again later; copies after that get a 200.
 */

const BOOKING_TIMEOUT_MS = 15_000;
const LOCK_TTL_MS = 60_000; // four times the booking timeout
const REMEMBER_SECONDS = 14 * 24 * 3600;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

export interface PaymentEvent {
  id: string;
  type: string;
  paymentId: string;
  amount: number;
}

export interface WebhookDeps {
  redis: Redis;
  verify(rawBody: string, signature: string | null): PaymentEvent | null;
  /** Stops and rolls back when the signal fires; booking an event that is in the ledger already changes nothing. */
  book(event: PaymentEvent, signal: AbortSignal): Promise<void>;
  log: { error(msg: string, err: unknown): void };
}

export function paymentWebhook({ redis, verify, book, log }: WebhookDeps) {
  return async function POST(req: Request): Promise<Response> {
    const event = verify(await req.text(), req.headers.get('x-signature'));
    if (!event) return new Response('bad signature', { status: 400 });

    const lockKey = `webhook:${event.id}:lock`;
    const doneKey = `webhook:${event.id}:done`;
    const token = randomUUID();

    let locked: string | null;
    try {
      locked = await redis.set(lockKey, token, { nx: true, px: LOCK_TTL_MS });
    } catch (err) {
      log.error('lock store unavailable', err);
      return new Response('try later', { status: 503, headers: { 'retry-after': '30' } });
    }
    if (locked !== 'OK') {
      return new Response('in progress', { status: 409, headers: { 'retry-after': '20' } });
    }

    try {
      if (await redis.exists(doneKey)) return new Response('seen', { status: 200 });
      await book(event, AbortSignal.timeout(BOOKING_TIMEOUT_MS));
      await redis.set(doneKey, new Date().toISOString(), { ex: REMEMBER_SECONDS });
      return new Response('booked', { status: 200 });
    } catch (err) {
      log.error(`event ${event.id}`, err);
      return new Response('failed', { status: 500 });
    } finally {
      try {
        await redis.eval(RELEASE, [lockKey], [token]);
      } catch (err) {
        log.error(`release of ${lockKey}`, err);
      }
    }
  };
}
