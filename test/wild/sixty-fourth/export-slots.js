import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { buildWorkbook } from './workbook.js';

/**
 * Limits the number of exports which run at the same time over all workers.
 *
 * The count is kept in one Redis key and changed by Lua scripts only, so there
 * is no race between checking and counting. The slot is given back in `finally`,
 * whatever happens to the export, and the TTL is a safety net for the case that
 * a worker dies in the middle.
 */

const redis = new Redis(process.env.REDIS_URL);

const KEY = 'export:slots';
const LIMIT = Number(process.env.EXPORT_LIMIT ?? 3);
const SLOT_TTL_MS = 10 * 60 * 1000;
const EXPORT_TIMEOUT_MS = 5 * 60 * 1000;

const script = (lua) => ({ lua, sha: createHash('sha1').update(lua).digest('hex') });

const TAKE = script(`
local used = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if used > tonumber(ARGV[1]) then
  redis.call('DECR', KEYS[1])
  return 0
end
return used
`);

const GIVE = script(`
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
if used <= 1 then
  redis.call('DEL', KEYS[1])
  return 0
end
return redis.call('DECR', KEYS[1])
`);

async function run({ lua, sha }, ...args) {
  try {
    return await redis.evalsha(sha, 1, KEY, ...args);
  } catch (err) {
    if (!String(err.message).includes('NOSCRIPT')) throw err;
    return redis.eval(lua, 1, KEY, ...args);
  }
}

export class NoSlotError extends Error {
  constructor() {
    super(`All ${LIMIT} export slots are in use`);
    this.name = 'NoSlotError';
  }
}

async function takeSlot(maxWaitMs) {
  const giveUp = Date.now() + maxWaitMs;
  while ((await run(TAKE, LIMIT, SLOT_TTL_MS)) === 0) {
    if (Date.now() > giveUp) throw new NoSlotError();
    await sleep(1000 + Math.random() * 1000);
  }
}

/** Wraps an async function so that at most LIMIT calls run in the whole cluster. */
export function withExportSlot(fn, { maxWaitMs = 120_000 } = {}) {
  return async function slotted(...args) {
    await takeSlot(maxWaitMs);
    try {
      return await fn.call(this, AbortSignal.timeout(EXPORT_TIMEOUT_MS), ...args);
    } finally {
      await run(GIVE).catch((err) => console.error('could not give the slot back', err));
    }
  };
}

export const exportOrders = withExportSlot(async (signal, filter) => {
  const workbook = await buildWorkbook('orders', filter, { signal });
  return workbook.toBuffer();
});
