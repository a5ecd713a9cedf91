import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * One process at a time reads the exchange feed and publishes it. The leader
 * renews its term; when the term cannot be renewed in time it stands down.
 */
const KEY = '{feed}:leader';
const TERM_KEY = '{feed}:term';
const TTL_MS = 15_000;
const RENEW_MS = 4_000;
const SAFETY_MS = 3_000;
const CAMPAIGN_MS = 2_000;

const ELECT = `
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('incr', KEYS[2])
end
return 0`;
const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;
const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface Feed {
  next(signal: AbortSignal): Promise<{ id: string; body: string } | undefined>;
}
export interface Publisher {
  /** Rejects when the signal is aborted, or when a later term has published. */
  publish(item: { id: string; body: string }, opts: { term: number; signal: AbortSignal }): Promise<void>;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}

export async function runFeed(redis: Redis, feed: Feed, publisher: Publisher, stop: AbortSignal) {
  while (!stop.aborted) {
    const token = randomUUID();
    const sentAt = Date.now();
    try {
      const term = Number(await redis.eval(ELECT, 2, KEY, TERM_KEY, token, TTL_MS));
      if (term > 0) await serve(redis, token, term, sentAt, feed, publisher, stop);
    } catch (err) {
      console.error('feed leader stood down', err);
    } finally {
      await redis.eval(RESIGN, 1, KEY, token).catch((err) => console.warn('resign failed', err));
    }
    await pause(CAMPAIGN_MS, stop);
  }
}

async function serve(
  redis: Redis,
  token: string,
  term: number,
  sentAt: number,
  feed: Feed,
  publisher: Publisher,
  stop: AbortSignal,
): Promise<void> {
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, stop]);
  let validUntil = sentAt + TTL_MS - SAFETY_MS;

  const watchdog = setInterval(() => {
    if (Date.now() >= validUntil) over.abort(new Error('term ran out'));
  }, 250);

  const renewals = (async () => {
    for (;;) {
      await pause(RENEW_MS, signal);
      if (signal.aborted) return;
      const at = Date.now();
      try {
        const kept = await redis.eval(RENEW, 1, KEY, token, TTL_MS);
        if (kept !== 1) return over.abort(new Error('term lost'));
        validUntil = at + TTL_MS - SAFETY_MS;
      } catch (err) {
        // The watchdog ends the term if no renewal gets through in time.
        console.warn('renewal failed, will retry', err);
      }
    }
  })();

  try {
    while (!signal.aborted) {
      const item = await feed.next(signal);
      if (!item) {
        await pause(500, signal);
        continue;
      }
      if (Date.now() >= validUntil) over.abort(new Error('term ran out'));
      signal.throwIfAborted();
      await publisher.publish(item, { term, signal });
    }
  } finally {
    over.abort(new Error('term ended'));
    clearInterval(watchdog);
    await renewals;
  }
}
