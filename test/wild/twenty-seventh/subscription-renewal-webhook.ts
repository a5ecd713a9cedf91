import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

type RenewalEvent = { id: string; subscriptionId: string; creditsPerPeriod: number };

type Subscription = { id: string; credits: number; seenEvents: string[] };

export type Deps = {
  secret: string;
  subscriptions: {
    load(id: string): Promise<Subscription | null>;
    save(sub: Subscription): Promise<void>;
  };
};

const json = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', ...headers },
  });

function verified(secret: string, raw: string, signature: string | null): boolean {
  if (!signature) return false;
  const ours = createHmac('sha256', secret).update(raw).digest();
  const theirs = Buffer.from(signature, 'hex');
  return ours.length === theirs.length && timingSafeEqual(ours, theirs);
}

const RELEASE = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

/**
 * POST /api/webhooks/renewal
 * The provider delivers at least once, sometimes in parallel, and tries again
 * for three days when we answer with anything but 2xx.
 */
export function makeRenewalHandler({ secret, subscriptions }: Deps) {
  return async function POST(req: Request): Promise<Response> {
    const raw = await req.text();
    if (!verified(secret, raw, req.headers.get('x-signature'))) {
      return json(401, { error: 'bad signature' });
    }
    const event = JSON.parse(raw) as RenewalEvent;

    const lockKey = `lock:subscription:${event.subscriptionId}`;
    const nonce = randomUUID();
    const locked = await redis.set(lockKey, nonce, { nx: true, px: 20_000 });
    if (!locked) {
      return json(409, { error: 'locked' }, { 'retry-after': '10' });
    }

    try {
      const sub = await subscriptions.load(event.subscriptionId);
      if (!sub) return json(404, { error: 'unknown subscription' });
      if (sub.seenEvents.includes(event.id)) return json(200, { duplicate: true });

      await subscriptions.save({
        ...sub,
        credits: sub.credits + event.creditsPerPeriod,
        seenEvents: [...sub.seenEvents, event.id].slice(-500),
      });
      return json(200, { ok: true });
    } catch (err) {
      console.error('renewal failed', event.id, err);
      return json(500, { error: 'internal' });
    } finally {
      await redis.eval(RELEASE, [lockKey], [nonce]).catch((e) => console.warn('unlock', lockKey, e));
    }
  };
}
