'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { createClient } = require('redis');

const FRESH_S = 120;
const LOCK_MS = 15_000;
const UPSTREAM_MS = 6_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
const ready = redis.connect();

/**
 * Wraps a loader so that of many callers with the same id only one asks upstream.
 * @template T
 * @param {string} prefix
 * @param {(id: string) => Promise<T>} load
 * @returns {(id: string) => Promise<T>}
 */
function cached(prefix, load) {
  return async (id) => {
    await ready;
    const dataKey = `${prefix}:${id}`;
    const lockKey = `${prefix}:${id}:loading`;

    const hit = await redis.get(dataKey);
    if (hit !== null) return JSON.parse(hit);

    const token = randomUUID();
    for (let i = 0; i < 40; i++) {
      const won = await redis.set(lockKey, token, { NX: true, PX: LOCK_MS });
      if (won === 'OK') {
        try {
          const late = await redis.get(dataKey);
          if (late !== null) return JSON.parse(late);
          const value = await load(id);
          await redis.set(dataKey, JSON.stringify(value), { EX: FRESH_S });
          return value;
        } finally {
          await redis
            .eval(RELEASE, { keys: [lockKey], arguments: [token] })
            .catch((err) => console.warn('release of %s: %s', lockKey, err.message));
        }
      }
      await sleep(100 + Math.random() * 100);
      const other = await redis.get(dataKey);
      if (other !== null) return JSON.parse(other);
    }
    // Whoever loads is taking ages; better one more request than an error on the sign at the stop.
    return load(id);
  };
}

const getTimetable = cached('timetable', async (stopId) => {
  const res = await fetch(`${process.env.TRANSIT_API}/stops/${encodeURIComponent(stopId)}/departures`, {
    signal: AbortSignal.timeout(UPSTREAM_MS),
  });
  if (!res.ok) throw new Error(`transit api answered ${res.status}`);
  const { departures } = await res.json();
  return departures.map((d) => ({ line: d.line, towards: d.headsign, at: d.scheduled, delay: d.delay ?? 0 }));
});

module.exports = { cached, getTimetable };
