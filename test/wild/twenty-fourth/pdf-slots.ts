import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Redis } from "ioredis";

// Our PDF engine licence allows N concurrent renders over the whole cluster.
// Slots live in a sorted set: member = render id, score = when the slot lapses (server clock).

const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

const KEEP = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local lapses = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not lapses or tonumber(lapses) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

export interface SlotOptions {
  limit: number;
  leaseMs?: number;
  waitMs?: number;
  key?: string;
}

export class NoSlotError extends Error {}

export function createRenderSlots(redis: Redis, opts: SlotOptions) {
  const { limit, leaseMs = 20_000, waitMs = 30_000, key = "pdf:slots" } = opts;

  const drop = (id: string) =>
    redis.zrem(key, id).catch((err) => console.warn("slot will lapse by itself", id, err));

  async function take(): Promise<{ id: string; askedAt: number }> {
    const until = performance.now() + waitMs;
    do {
      const id = randomUUID();
      const askedAt = performance.now();
      try {
        if ((await redis.eval(TAKE, 1, key, id, limit, leaseMs)) === 1) {
          if (performance.now() - askedAt < leaseMs / 4) return { id, askedAt };
          await drop(id); // answer took so long that too little of the lease is left
        }
      } catch (err) {
        await drop(id);
        throw err;
      }
      await delay(100 + Math.random() * 200);
    } while (performance.now() < until);
    throw new NoSlotError(`no render slot within ${waitMs}ms`);
  }

  /** `render` must stop promptly when the signal fires. */
  return async function withSlot<T>(render: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { id, askedAt } = await take();
    const lost = new AbortController();
    let goodUntil = askedAt + leaseMs * 0.9;
    let finished = false;

    const keepAlive = (async () => {
      while (!finished && !lost.signal.aborted) {
        await delay(leaseMs / 5, undefined, { signal: lost.signal }).catch(() => {});
        if (finished) return;
        const asked = performance.now();
        // fire and look at the clock: a hanging connection must not keep us believing
        const outcome = await Promise.race([
          redis.eval(KEEP, 1, key, id, leaseMs).catch(() => "error"),
          delay(leaseMs / 5, "slow"),
        ]);
        if (finished) return;
        if (outcome === 1) goodUntil = asked + leaseMs * 0.9;
        else if (outcome === 0) lost.abort(new Error("render slot lost"));
        if (performance.now() + leaseMs * 0.4 > goodUntil) lost.abort(new Error("render slot not renewed in time"));
      }
    })();

    try {
      return await render(lost.signal);
    } finally {
      finished = true;
      lost.abort();
      await keepAlive;
      await drop(id);
    }
  };
}
