import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

// The render service falls over with more than a handful of jobs at once, so all
// our workers together may only have RENDER_SLOTS requests in flight.

const redis = new Redis(process.env.REDIS_URL!);
const RENDER_URL = process.env.RENDER_URL!;
const SLOTS = Number(process.env.RENDER_SLOTS ?? 4);

const SLOT_MS = 60_000; // a slot of a dead worker comes back after this
const RENDER_MS = 15_000; // the service stops by itself after this (x-deadline-ms)
const REQUEST_MS = 20_000; // and we hang up after this
const WAIT_MS = 30_000;

const KEY = 'sem:pdf-render';

// Scores are the expiry of each slot on the Redis clock. The set's own expiry is
// only ever moved outwards.
const ENTER = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) + 1000 then
  redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[3]) + 1000)
end
return 1`;

async function leave(slot: string): Promise<void> {
  await redis.zrem(KEY, slot).catch((err: Error) => {
    console.warn('slot not returned, it will run out by itself:', err.message);
  });
}

async function enter(): Promise<string> {
  const giveUpAt = performance.now() + WAIT_MS;
  do {
    const slot = randomUUID();
    const askedAt = performance.now();
    const granted = await redis.eval(ENTER, 1, KEY, slot, SLOTS, SLOT_MS);
    if (granted === 1) {
      // Enough of the slot must be left for the whole request, seen from before we asked.
      const left = askedAt + SLOT_MS - performance.now();
      if (left > REQUEST_MS * 2) return slot;
      await leave(slot);
    }
    await sleep(150 + Math.random() * 150);
  } while (performance.now() < giveUpAt);
  throw new Error('render service is busy');
}

export async function renderPdf(html: string): Promise<Uint8Array> {
  const slot = await enter();
  try {
    const response = await fetch(RENDER_URL, {
      method: 'POST',
      headers: { 'content-type': 'text/html', 'x-deadline-ms': String(RENDER_MS) },
      body: html,
      signal: AbortSignal.timeout(REQUEST_MS),
    });
    if (!response.ok) throw new Error(`render service said ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  } finally {
    await leave(slot);
  }
}
