import { createClient } from 'redis';
import axios from 'axios';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { log } from '../lib/log.mjs';

const client = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  pingInterval: 5_000,
  socket: { connectTimeout: 3_000, socketTimeout: 12_000 },
});
client.on('error', (err) => log.error({ err }, 'redis'));
await client.connect();

// The studio's Modbus gateway answers 503 above eight sessions.
const SLOTS = 8;
const LEASE_MS = 45_000;
const MARGIN_MS = 10_000;
const SLOTS_KEY = 'kiln-gateway:slots';

const TAKE = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local lease = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + lease, ARGV[2])
redis.call('PEXPIRE', KEYS[1], lease * 2)
return 1`;

export class GatewayBusyError extends Error {
  name = 'GatewayBusyError';
}

async function takeSlot(waitMs) {
  const member = randomUUID();
  const giveUpAt = performance.now() + waitMs;
  for (;;) {
    const sentAt = performance.now();
    const ok = await client.eval(TAKE, {
      keys: [SLOTS_KEY],
      arguments: [String(SLOTS), member, String(LEASE_MS)],
    });
    if (ok === 1) return { member, usableUntil: sentAt + LEASE_MS - MARGIN_MS };
    if (performance.now() >= giveUpAt) throw new GatewayBusyError('no free gateway session');
    await sleep(200 + Math.random() * 300);
  }
}

export async function withGatewaySlot(fn, { waitMs = 15_000 } = {}) {
  const slot = await takeSlot(waitMs);
  try {
    const left = Math.floor(slot.usableUntil - performance.now());
    if (left <= 0) throw new GatewayBusyError('session came too late');
    return await fn(AbortSignal.timeout(left));
  } finally {
    await client
      .zRem(SLOTS_KEY, slot.member)
      .catch((err) => log.warn({ err }, 'gateway session will lapse'));
  }
}

export async function uploadFiringProgram(kilnId, program) {
  return withGatewaySlot(async (signal) => {
    const base = `${process.env.KILN_GATEWAY}/kilns/${encodeURIComponent(kilnId)}`;
    const current = await axios.get(`${base}/program`, { signal, timeout: 10_000 });
    if (current.data.firing) throw new Error(`kiln ${kilnId} is firing`);

    await axios.put(`${base}/program`, program, {
      signal,
      timeout: 15_000,
      headers: { 'If-Match': current.headers.etag },
    });
    log.info({ kilnId, segments: program.segments.length }, 'firing program uploaded');
    return { kilnId, replaced: current.data.name };
  });
}
