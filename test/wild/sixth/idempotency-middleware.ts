import { createClient } from 'redis';

interface Req {
  body: unknown;
  get(header: string): string | undefined;
}
interface Res {
  status(code: number): Res;
  json(body: unknown): void;
}

type Answer = { status: number; body: unknown };

const DAY = 24 * 60 * 60;
const IN_PROGRESS = 'in-progress';

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('redis', err));

let connected: Promise<unknown> | undefined;

async function redis() {
  connected ??= client.connect();
  await connected;
  return client;
}

/**
 * Wraps a handler so that it runs at most once for an Idempotency-Key.
 *
 * As with Stripe the first answer is kept, even a 500: a client that wants another try
 * has to come with another key.
 *
 *   app.post('/transfers', idempotent(async (req) => ({ status: 201, body: await transfer(req.body) })));
 */
export function idempotent(handler: (req: Req) => Promise<Answer>) {
  return async (req: Req, res: Res): Promise<void> => {
    const header = req.get('Idempotency-Key');
    if (!header) {
      res.status(400).json({ error: 'Idempotency-Key is required' });
      return;
    }

    const db = await redis();
    const key = `idem:${header}`;
    const first = await db.set(key, IN_PROGRESS, {
      condition: 'NX',
      expiration: { type: 'EX', value: DAY },
    });

    if (first !== 'OK') {
      const stored = await db.get(key);
      if (!stored || stored === IN_PROGRESS) {
        res.status(409).json({ error: 'a request with this key is being processed' });
        return;
      }
      const answer = JSON.parse(stored) as Answer;
      res.status(answer.status).json(answer.body);
      return;
    }

    let answer: Answer;
    try {
      answer = await handler(req);
    } catch (err) {
      console.error('handler failed', err);
      answer = { status: 500, body: { error: 'internal error' } };
    }

    // If this write is lost the key stays "in-progress": a retry gets a 409, never a second run.
    await db
      .set(key, JSON.stringify(answer), { condition: 'XX', expiration: 'KEEPTTL' })
      .catch((err) => console.error(`could not store the answer for ${key}`, err));
    res.status(answer.status).json(answer.body);
  };
}
