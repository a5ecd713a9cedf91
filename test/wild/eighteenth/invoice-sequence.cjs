"use strict";

const { randomUUID } = require("node:crypto");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis");

// The instance is shared with the shop and the CMS, hence the prefix.
const redis = new Redis(process.env.REDIS_URL || "redis://127.0.0.1:6379", {
  keyPrefix: "billing:",
  commandTimeout: 2000,
  maxRetriesPerRequest: 2,
});
redis.on("error", (err) => console.error("[billing] redis:", err.message));

const LOCK_TTL_MS = 20000;
const WAIT_MS = 30000;

const UNLOCK = `
local current = redis.call("get", ARGV[1])
if current == ARGV[2] then
  redis.call("del", ARGV[1])
  return 1
end
return 0`;

/**
 * Waits until the lock is free. Resolves to a handle, or to null after WAIT_MS.
 */
async function acquire(name) {
  const key = `lock:${name}`;
  const token = randomUUID();
  const until = performance.now() + WAIT_MS;
  do {
    const sentAt = performance.now();
    const reply = await redis.set(key, token, "PX", LOCK_TTL_MS, "NX");
    if (reply === "OK") {
      // keep a second in reserve for the last request of the work
      return { key, token, validUntil: sentAt + LOCK_TTL_MS - 1000 };
    }
    await sleep(100 + Math.floor(Math.random() * 200));
  } while (performance.now() < until);
  return null;
}

/**
 * Gives the lock back if it is still ours. Atomic, because between a GET and a
 * DEL the lock could expire and be taken by another worker.
 */
async function release(handle) {
  const released = await redis.eval(UNLOCK, 0, handle.key, handle.token);
  return released === 1;
}

function assertValid(handle) {
  if (performance.now() >= handle.validUntil) {
    throw new Error(`${handle.key} is no longer ours`);
  }
}

/**
 * Tax law wants invoice numbers without gaps, so the number is only used up
 * when the invoice itself is stored.
 *
 * @param {{ lastNumber(year: number): Promise<number>,
 *           insert(year: number, number: number, draft: object): Promise<void> }} invoices
 */
async function issueInvoice(invoices, draft) {
  const year = new Date(draft.date).getUTCFullYear();
  const handle = await acquire(`invoice-number:${year}`);
  if (!handle) throw new Error("invoice numbering is busy, try again later");
  try {
    const number = (await invoices.lastNumber(year)) + 1;
    assertValid(handle);
    await invoices.insert(year, number, draft);
    return `${year}-${String(number).padStart(6, "0")}`;
  } finally {
    try {
      await release(handle);
    } catch (err) {
      console.warn(`[billing] ${handle.key} left to its TTL: ${err.message}`);
    }
  }
}

module.exports = { acquire, release, issueInvoice };
