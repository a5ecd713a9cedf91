import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

// The partner's contract allows 12 open availability searches over all our pods. Beyond
// that they answer 429, which the caller retries, so a rare 13th call is no drama.
const MAX_OPEN = Number(process.env.PARTNER_MAX_OPEN ?? 12);
const SLOT_MS = 25_000;
const CALL_MS = 20_000;
const WAIT_MS = 8_000;
const KEY = 'partner:bedbank:open';

const TAKE = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`;

export class PartnerBusyError extends Error {
  name = 'PartnerBusyError';
  retryable = true;
}

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => console.error('[partner-slots] redis', err.message));
await redis.connect();

async function takeSlot(token) {
  const giveUpAt = Date.now() + WAIT_MS;
  for (;;) {
    const sentAt = performance.now();
    const taken = await redis.eval(TAKE, {
      keys: [KEY],
      arguments: [token, String(MAX_OPEN), String(SLOT_MS)],
    });
    if (taken === 1) return sentAt;
    if (Date.now() > giveUpAt) throw new PartnerBusyError('no free slot');
    await sleep(100 + Math.random() * 150);
  }
}

export async function searchAvailability(query) {
  const token = randomUUID();
  try {
    const takenAt = await takeSlot(token);
    const left = Math.floor(CALL_MS - (performance.now() - takenAt));
    if (left <= 0) throw new PartnerBusyError('slot came too late');

    const response = await fetch(`${process.env.PARTNER_URL}/availability`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': process.env.PARTNER_KEY },
      body: JSON.stringify(query),
      signal: AbortSignal.timeout(left),
    });
    if (response.status === 429) throw new PartnerBusyError('partner says 429');
    if (!response.ok) throw new Error(`partner answered ${response.status}`);
    return await response.json();
  } finally {
    await redis.zRem(KEY, token).catch((err) => console.warn('[partner-slots] slot runs out by itself', err.message));
  }
}
