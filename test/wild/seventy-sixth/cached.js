'use strict';

// Part 4 of "Caching for people who own a popular homepage": the thundering herd.
//
// When a hot key gets old, thousands of requests would ask the origin at once. Instead
//   - every process asks once per key and shares the answer (the `inflight` map),
//   - among the processes a short lock in Redis picks one; the others serve the old copy,
//     or, when there is none, wait a little and then tell the visitor to come back.
//
// The lock only protects the origin. Should it run out because the origin is slow, or should
// Redis be away, a page is loaded once more than needed, which does no harm.

const { randomUUID } = require('crypto');
const { setTimeout: sleep } = require('timers/promises');

const UNLOCK =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

class BusyError extends Error {
  constructor(key) {
    super(`${key} is being loaded, try again`);
    this.status = 503;
  }
}

function createCache(client, { lockMs = 10000, waitMs = 3000, pollMs = 80, staleSec = 3600, log = console } = {}) {
  const inflight = new Map();

  async function peek(key) {
    const raw = await client.get(`c:${key}`);
    return raw === null ? null : JSON.parse(raw); // { value, freshUntil }
  }

  async function fill(key, ttlSec, load) {
    const value = await load();
    const entry = JSON.stringify({ value, freshUntil: Date.now() + ttlSec * 1000 });
    await client
      .set(`c:${key}`, entry, { EX: ttlSec + staleSec })
      .catch((err) => log.warn(`cache write of ${key} failed: ${err.message}`));
    return value;
  }

  async function refresh(key, ttlSec, load) {
    const token = randomUUID();
    const giveUpAt = Date.now() + waitMs;

    try {
      for (;;) {
        const entry = await peek(key);
        if (entry && entry.freshUntil > Date.now()) return entry.value;
        if ((await client.set(`l:${key}`, token, { NX: true, PX: lockMs })) === 'OK') break;
        if (entry) return entry.value;
        if (Date.now() > giveUpAt) throw new BusyError(key);
        await sleep(pollMs + Math.random() * pollMs);
      }
    } catch (err) {
      if (err instanceof BusyError) throw err;
      log.warn(`redis trouble on ${key}, going to the origin: ${err.message}`);
      return fill(key, ttlSec, load);
    }

    try {
      // The previous owner may have finished between our look and our lock.
      const late = await peek(key).catch(() => null);
      if (late && late.freshUntil > Date.now()) return late.value;
      return await fill(key, ttlSec, load);
    } finally {
      await client
        .eval(UNLOCK, { keys: [`l:${key}`], arguments: [token] })
        .catch((err) => log.warn(`unlock of ${key} failed: ${err.message}`));
    }
  }

  return function cached(key, ttlSec, load) {
    let pending = inflight.get(key);
    if (!pending) {
      pending = refresh(key, ttlSec, load).finally(() => inflight.delete(key));
      inflight.set(key, pending);
    }
    return pending;
  };
}

module.exports = { createCache, BusyError };

// const cached = createCache(client);
// app.get('/front', async (req, res) => {
//   res.json(await cached('front', 30, () => db.loadFrontPage()));
// });
