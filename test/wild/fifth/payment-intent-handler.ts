import Redis from 'ioredis';

interface Req {
  header(name: string): string | undefined;
  body: { orderId: string; cents: number };
  user: { id: string };
}
interface Res {
  status(code: number): Res;
  set(name: string, value: string): Res;
  json(body: unknown): void;
}

/** the PSP said no, nothing was created */
export class PspRefused extends Error {}

interface Psp {
  createIntent(orderId: string, cents: number): Promise<{ id: string; clientSecret: string }>;
}

const RUNNING = 'running';
const KEEP_SECONDS = 24 * 3600;

export function redisFromEnv(): Redis {
  const redis = new Redis({
    host: process.env.REDIS_HOST ?? '127.0.0.1',
    port: Number(process.env.REDIS_PORT ?? 6379),
    maxRetriesPerRequest: 1,
  });
  redis.on('error', (err) => console.error('payment redis', err.message));
  return redis;
}

/**
 * POST /payment-intents. The app sends an Idempotency-Key and repeats the request when the
 * network is bad (with the same key), the PSP of this market has no idempotency of its own.
 */
export function paymentIntentHandler(redis: Redis, psp: Psp) {
  return async function (req: Req, res: Res, next: (err: unknown) => void): Promise<void> {
    const idem = req.header('idempotency-key');
    if (!idem || !/^[\w-]{8,64}$/.test(idem)) {
      res.status(400).json({ error: 'Idempotency-Key missing or malformed' });
      return;
    }
    const key = `idem:intent:${req.user.id}:${idem}`;
    let keep = false;

    try {
      const claimed = await redis.set(key, RUNNING, 'EX', KEEP_SECONDS, 'NX');

      if (claimed !== 'OK') {
        const previous = await redis.get(key);
        if (previous === null || previous === RUNNING) {
          res.status(409).set('Retry-After', '2').json({ error: 'request is being processed' });
          return;
        }
        keep = true;
        res.status(200).set('Idempotent-Replay', 'true').json(JSON.parse(previous));
        return;
      }

      const intent = await psp.createIntent(req.body.orderId, req.body.cents);
      await redis.set(key, JSON.stringify(intent), 'EX', KEEP_SECONDS);
      keep = true;
      res.status(201).json(intent);
    } catch (err) {
      // anything but a clear no may have gone through, reconciliation looks at those
      keep = !(err instanceof PspRefused);
      next(err);
    } finally {
      if (!keep) {
        // no result to replay, let the app have another go
        await redis.del(key).catch((err: Error) => console.warn(`${key}: ${err.message}`));
      }
    }
  };
}
