import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import { setTimeout as sleep } from 'node:timers/promises';

/*
 * Our contract with the geocoder allows eight calls at a time for the whole company. Over that it
 * answers 429 and counts nothing, so the limit is soft: the semaphore keeps us from running into 429
 * all day, and a slot which is reclaimed a moment early does no harm.
 */
const LIMIT = 8;
const SLOT_TTL_MS = 15_000;
const CALL_TIMEOUT_MS = 8_000;
const MAX_WAIT_MS = 10_000;

// Server time for all scores, so that the clocks of our hosts do not matter.
const ENTER = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[3]) * 2)
return 1
`;

export class NoSlotError extends Error {
  constructor(waited) {
    super(`no geocoder slot within ${Math.round(waited)} ms`);
    this.name = 'NoSlotError';
    this.statusCode = 503;
  }
}

export class GeocoderBusyError extends Error {
  constructor() {
    super('geocoder answered 429');
    this.name = 'GeocoderBusyError';
    this.statusCode = 503;
  }
}

export async function createGeocoder({ redisUrl, baseUrl, apiKey, log, metrics }) {
  const redis = createClient({ url: redisUrl, disableOfflineQueue: true });
  redis.on('error', (err) => log.warn({ err }, 'geocoder redis'));
  await redis.connect();

  const key = 'sem:geocoder';

  async function enter(signal) {
    const began = performance.now();
    for (;;) {
      signal?.throwIfAborted();
      // a new member for every try: a try whose reply was lost just expires
      const member = randomUUID();
      const askedAt = performance.now();
      const entered = await redis.eval(ENTER, {
        keys: [key],
        arguments: [member, String(LIMIT), String(SLOT_TTL_MS)],
      });
      if (entered === 1) {
        metrics.observe('geocoder_slot_wait_ms', performance.now() - began);
        return { member, endsAt: askedAt + SLOT_TTL_MS };
      }
      const waited = performance.now() - began;
      if (waited > MAX_WAIT_MS) {
        throw new NoSlotError(waited);
      }
      await sleep(50 + Math.random() * 150, undefined, { signal });
    }
  }

  async function leave(member) {
    // members are ours alone, so there is nothing to compare
    try {
      await redis.zRem(key, member);
    } catch (err) {
      log.warn({ err }, 'geocoder slot left to expire');
    }
  }

  async function geocode(address, { signal } = {}) {
    const slot = await enter(signal);
    try {
      const left = Math.floor(Math.min(CALL_TIMEOUT_MS, slot.endsAt - performance.now() - 500));
      if (left <= 0) {
        throw new NoSlotError(SLOT_TTL_MS);
      }
      const signals = [AbortSignal.timeout(left)];
      if (signal) signals.push(signal);

      const res = await fetch(`${baseUrl}/v2/search?q=${encodeURIComponent(address)}`, {
        headers: { authorization: `Bearer ${apiKey}` },
        signal: AbortSignal.any(signals),
      });
      if (res.status === 429) {
        metrics.increment('geocoder_429');
        throw new GeocoderBusyError();
      }
      if (!res.ok) {
        throw new Error(`geocoder answered ${res.status}`);
      }
      const body = await res.json();
      return body.results?.[0] ?? null;
    } finally {
      await leave(slot.member);
    }
  }

  return {
    geocode,
    close: () => redis.quit(),
  };
}
