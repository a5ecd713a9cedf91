import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

/**
 * First-come, first-served access to a label printer shared by all packing stations.
 *
 * Each waiter gets a ticket from a counter. A waiter proves that it is alive by polling; one
 * that stops polling for WAITER_MS is removed from the line.
 */
const HOLD_MS = 45_000;
const PRINT_MS = 25_000;
const WAITER_MS = 5_000;
const POLL_MS = 250;

// KEYS: holder, line, alive, counter    ARGV: me, hold ms, waiter ms
const STEP = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now)) do
  redis.call('ZREM', KEYS[2], gone)
  redis.call('ZREM', KEYS[3], gone)
end

if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[4]), ARGV[1])
end
redis.call('ZADD', KEYS[3], now + tonumber(ARGV[3]), ARGV[1])

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if redis.call('ZRANGE', KEYS[2], 0, 0)[1] ~= ARGV[1] then return 0 end

redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
return 1`;

// Leaves the line, and gives the printer back if it is ours.
const LEAVE = `
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const redis = new Redis(process.env.REDIS_URL);
redis.defineCommand('printerStep', { numberOfKeys: 4, lua: STEP });
redis.defineCommand('printerLeave', { numberOfKeys: 3, lua: LEAVE });

/**
 * Runs `job(signal)` when it is our turn. The signal fires after PRINT_MS; the job has to honour it.
 */
export async function withPrinter(printerId, job, { patienceMs = 120_000 } = {}) {
  const base = `{printer:${printerId}}`;
  const keys = [`${base}:holder`, `${base}:line`, `${base}:alive`];
  const counter = `${base}:counter`;
  const me = randomUUID();
  const giveUpAt = Date.now() + patienceMs;

  try {
    while ((await redis.printerStep(...keys, counter, me, HOLD_MS, WAITER_MS)) !== 1) {
      if (Date.now() >= giveUpAt) throw new Error(`Printer ${printerId} is still busy`);
      await sleep(POLL_MS);
    }
    return await job(AbortSignal.timeout(PRINT_MS));
  } finally {
    await redis.printerLeave(...keys, me).catch((error) => {
      console.warn(`Could not leave the line of printer ${printerId}`, error);
    });
  }
}

export function printLabels(printerId, zpl) {
  return withPrinter(printerId, async (signal) => {
    const response = await fetch(`http://${printerId}.printers.internal/pstprnt`, {
      method: 'POST',
      body: zpl,
      signal,
    });
    if (!response.ok) throw new Error(`Printer answered ${response.status}`);
    await response.arrayBuffer();
  });
}
