import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

/**
 * Carrier webhooks (edge function). The carrier delivers at least once and tries
 * again on any answer other than 2xx.
 *
 * The marker of an event is `pending:<uuid>` while someone works on it and `done`
 * afterwards. 200 is only ever answered once the event is stored. If we die between
 * storing and marking, the event is handled again after PENDING_MS; appendEvent is an
 * upsert on (shipment_id, carrier_seq), so this does no harm.
 */
const PENDING_MS = 60_000;
const WORK_LIMIT_MS = 20_000;
const DONE_SECONDS = 3 * 24 * 3600;

const FINISH = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], 'done', 'EX', ARGV[2])
  return 1
end
return 0`;

const GIVE_BACK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

export interface CarrierEvent {
  eventId: string;
  shipmentId: string;
  carrierSeq: number;
  status: 'picked_up' | 'in_transit' | 'delivered' | 'exception';
  occurredAt: string;
}

export interface ShipmentStore {
  appendEvent(event: CarrierEvent, opts: { signal: AbortSignal }): Promise<void>;
}

export interface WebhookRequest {
  body: string;
  headers: Record<string, string | undefined>;
}

export interface WebhookResponse {
  statusCode: number;
  headers?: Record<string, string>;
  body: string;
}

function answer(statusCode: number, state: string, retryAfter?: number): WebhookResponse {
  return {
    statusCode,
    headers: retryAfter ? { 'Retry-After': String(retryAfter) } : undefined,
    body: JSON.stringify({ state }),
  };
}

function parse(body: string): CarrierEvent | null {
  try {
    const e = JSON.parse(body) as CarrierEvent;
    return typeof e.eventId === 'string' && typeof e.shipmentId === 'string' && Number.isInteger(e.carrierSeq) ? e : null;
  } catch {
    return null;
  }
}

export function createShipmentWebhook(
  store: ShipmentStore,
  verify: (req: WebhookRequest) => boolean,
  log: (level: 'info' | 'warn' | 'error', msg: string, fields: object) => void,
) {
  return async function handler(req: WebhookRequest): Promise<WebhookResponse> {
    if (!verify(req)) return answer(401, 'bad_signature');
    const event = parse(req.body);
    if (!event) return answer(400, 'bad_event');

    const key = `webhook:carrier:${event.eventId}`;
    const mine = `pending:${randomUUID()}`;

    const claimed = await redis.set(key, mine, { nx: true, px: PENDING_MS });
    if (claimed !== 'OK') {
      const current = await redis.get<string>(key);
      if (current === 'done') {
        log('info', 'duplicate delivery', { eventId: event.eventId });
        return answer(200, 'duplicate');
      }
      // The REST client repeats a request whose answer got lost, so the marker which
      // turned us down can be our own.
      if (current !== mine) {
        return answer(409, 'in_progress', 30);
      }
    }

    try {
      await store.appendEvent(event, { signal: AbortSignal.timeout(WORK_LIMIT_MS) });
    } catch (err) {
      log('error', 'event not stored', { eventId: event.eventId, err: String(err) });
      await redis.eval(GIVE_BACK, [key], [mine]).catch((e: unknown) => {
        log('warn', 'marker left to its ttl', { eventId: event.eventId, err: String(e) });
      });
      return answer(500, 'failed');
    }

    try {
      const finished = await redis.eval(FINISH, [key], [mine, String(DONE_SECONDS)]);
      if (finished !== 1) log('warn', 'marker had run out', { eventId: event.eventId });
    } catch (err) {
      // stored all the same; a later duplicate is upserted over it
      log('warn', 'marker not finished', { eventId: event.eventId, err: String(err) });
    }
    return answer(200, 'stored');
  };
}
