import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const LEASE_SECONDS = 30;
const BEAT_SECONDS = 10;
const MARGIN_SECONDS = 5;

const KEEP = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
else
  return 0
end`;

const DROP = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

type Handler<E> = (event: E, signal: AbortSignal) => Promise<void>;

/**
 * Wraps a webhook handler so that events of one subject are handled one after the
 * other. A second event that comes in meanwhile gets a 409 and is sent again later
 * by the provider. The handler may take as long as it likes: the lease is kept
 * alive until it returns, and `signal` tells it to stop if that did not work.
 */
export function exclusive<E>(subjectOf: (event: E) => string, handler: Handler<E>) {
  return async function POST(request: Request): Promise<Response> {
    const event = (await request.json()) as E;
    const key = `webhook:${subjectOf(event)}`;
    const token = crypto.randomUUID();

    let confirmedAt = Date.now();
    const taken = await redis.set(key, token, { nx: true, ex: LEASE_SECONDS });
    if (taken !== 'OK') return new Response('busy', { status: 409 });

    const stop = new AbortController();
    const expired = () => Date.now() > confirmedAt + (LEASE_SECONDS - MARGIN_SECONDS) * 1000;

    const watch = setInterval(() => {
      if (expired()) stop.abort(new Error('lease expired'));
    }, 500);

    const beat = setInterval(async () => {
      const sentAt = Date.now();
      try {
        const kept = await redis.eval(KEEP, [key], [token, LEASE_SECONDS]);
        if (kept === 1) confirmedAt = Math.max(confirmedAt, sentAt);
        else stop.abort(new Error('lease lost'));
      } catch {
        // no answer: the watch above decides when it has been too long
      }
    }, BEAT_SECONDS * 1000);

    try {
      if (expired()) return new Response('busy', { status: 409 });
      await handler(event, stop.signal);
      stop.signal.throwIfAborted();
      return new Response('ok');
    } catch (err) {
      console.error('webhook failed', key, err);
      return new Response('failed', { status: 500 });
    } finally {
      clearInterval(beat);
      clearInterval(watch);
      await redis.eval(DROP, [key], [token]).catch(() => {});
    }
  };
}
