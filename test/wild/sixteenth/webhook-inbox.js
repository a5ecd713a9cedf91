import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

// Inbox for the carrier's webhooks. The carrier repeats an event until it gets
// a 2xx, and sometimes sends it twice at the same moment.
const WORKING_MS = 30_000;
const HANDLE_BUDGET_MS = 20_000;
const DONE_MS = 3 * 24 * 60 * 60 * 1000;
const DONE = 'done';

const MARK_DONE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0`;

const GIVE_UP = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export function redisFromEnv() {
  return new Redis({
    url: process.env.UPSTASH_REDIS_REST_URL,
    token: process.env.UPSTASH_REDIS_REST_TOKEN,
  });
}

/**
 * @param {Redis} redis
 * @param {{ apply(event: object, opts: { eventId: string, signal: AbortSignal }): Promise<void> }} shipments
 *   apply() is one transaction: it is rolled back, and rejects, when the signal
 *   aborts, and it does nothing for an event id that has already been applied.
 */
export function webhookHandler(redis, shipments) {
  return async (req, res) => {
    const event = req.body;
    if (!event || typeof event.id !== 'string') {
      return res.status(400).json({ error: 'no event id' });
    }

    const key = `webhook:carrier:${event.id}`;
    const working = `working:${randomUUID()}`;
    const startedAt = Date.now();

    let reply;
    let current = null;
    try {
      reply = await redis.set(key, working, { nx: true, px: WORKING_MS });
      if (reply !== 'OK') current = await redis.get(key);
    } catch (err) {
      console.error('webhook inbox without redis', err);
      await giveUp(redis, key, working);
      return res.status(503).json({ error: 'try again' });
    }

    if (reply !== 'OK') {
      if (current === DONE) return res.status(200).json({ duplicate: true });
      // In progress elsewhere: not a success yet, so the carrier asks again.
      return res.status(409).json({ error: 'in progress' });
    }

    try {
      const left = startedAt + HANDLE_BUDGET_MS - Date.now();
      if (left <= 0) throw new Error('no time left to handle the event');
      await shipments.apply(event, { eventId: event.id, signal: AbortSignal.timeout(left) });
    } catch (err) {
      console.error('event not applied', event.id, err);
      await giveUp(redis, key, working);
      return res.status(500).json({ error: 'not applied' });
    }

    try {
      const marked = await redis.eval(MARK_DONE, [key], [working, DONE, String(DONE_MS)]);
      if (marked !== 1) console.warn('event was taken over meanwhile', event.id);
    } catch (err) {
      // A repeat is applied again, which does nothing for a known event id.
      console.warn('event not marked as done', event.id, err);
    }
    return res.status(200).json({ duplicate: false });
  };
}

async function giveUp(redis, key, working) {
  try {
    await redis.eval(GIVE_UP, [key], [working]);
  } catch (err) {
    console.warn('event left to its TTL', key, err);
  }
}
