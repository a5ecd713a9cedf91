import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const TTL_SECONDS = 20;

interface WebhookRequest {
  params: { deliveryId: string };
}

interface WebhookResponse {
  status(code: number): WebhookResponse;
  json(body: unknown): WebhookResponse;
}

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`;

/** Makes sure that one delivery is processed by one function instance at a time. */
export function guarded(process: (deliveryId: string) => Promise<void>) {
  return async (req: WebhookRequest, res: WebhookResponse) => {
    const { deliveryId } = req.params;
    const key = `webhook:${deliveryId}`;
    const inFlight = await redis.get<string>(key);
    if (inFlight) {
      return res.status(409).json({ error: 'already being processed' });
    }
    const id = randomUUID();
    await redis.set(key, id, { ex: TTL_SECONDS });
    try {
      await process(deliveryId);
      return res.status(200).json({ ok: true });
    } finally {
      await redis.eval(UNLOCK, [key], [id]);
    }
  };
}
