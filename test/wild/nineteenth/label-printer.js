"use strict";
const { randomUUID } = require("node:crypto");
const { performance } = require("node:perf_hooks");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis");

// First come, first served: a list of tickets next to the lock. KEYS: lock, queue
const ENQUEUE = `
redis.call('LREM', KEYS[2], 0, ARGV[1])
return redis.call('RPUSH', KEYS[2], ARGV[1])`;

const TRY = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if redis.call('LINDEX', KEYS[2], 0) ~= ARGV[1] then return 0 end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
redis.call('LREM', KEYS[2], 0, ARGV[1])
return 1`;

const LEAVE = `
redis.call('LREM', KEYS[2], 0, ARGV[1])
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`;

const TTL_MS = 20_000;
const MARGIN_MS = 250;

class PrinterBusy extends Error {}

class LabelPrinter {
  /**
   * @param {string} printerId
   * @param {(labels: Buffer[], signal: AbortSignal) => Promise<void>} print
   * @param {import("ioredis").Redis} [redis]
   */
  constructor(printerId, print, redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2_000 })) {
    this.print = print;
    this.redis = redis;
    this.keys = [`{printer:${printerId}}:lock`, `{printer:${printerId}}:queue`];
    redis.on("error", (err) => console.error("redis:", err.message));
  }

  /** Prints in the order in which the calls came in over all packing stations. */
  async submit(labels, { waitMs = 60_000 } = {}) {
    const ticket = randomUUID();
    const giveUpAt = performance.now() + waitMs;
    try {
      await this.redis.eval(ENQUEUE, 2, ...this.keys, ticket);
      for (;;) {
        const sentAt = performance.now();
        const mine = await this.redis.eval(TRY, 2, ...this.keys, ticket, TTL_MS);
        const left = Math.floor(sentAt + TTL_MS - MARGIN_MS - performance.now());
        if (mine === 1 && left > 0) {
          await this.print(labels, AbortSignal.timeout(left));
          return;
        }
        if (performance.now() >= giveUpAt) throw new PrinterBusy(this.keys[0]);
        await sleep(150);
      }
    } finally {
      // on success, on failure and when we gave up: no ticket and no lock of ours remains
      await this.leave(ticket);
    }
  }

  async leave(ticket) {
    for (let i = 0; i < 3; i++) {
      try {
        await this.redis.eval(LEAVE, 2, ...this.keys, ticket);
        return;
      } catch (err) {
        console.warn(`leaving ${this.keys[1]}: ${err.message}`);
        await sleep(200);
      }
    }
  }
}

module.exports = { LabelPrinter, PrinterBusy };
