import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

/*
 * Semaphore with a first-come-first-served queue, for heavy exports.
 * All times are taken from the Redis server.
 *
 *   holders  zset  id -> end of lease
 *   queue    zset  id -> ticket number
 *   alive    zset  id -> when a waiter that no longer polls is dropped
 *
 * The limit is there to protect the reporting database from load. A process
 * that was frozen can exceed it for the moment it takes to notice; exports only
 * read and write to their own file, so that is acceptable.
 */
const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;

const ENTER = `${NOW}
local id, limit = ARGV[1], tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now)) do
  redis.call('ZREM', KEYS[2], dead)
  redis.call('ZREM', KEYS[3], dead)
end
if redis.call('ZSCORE', KEYS[1], id) then
  redis.call('ZADD', KEYS[1], now + ARGV[3], id)
  return 1
end
if not redis.call('ZSCORE', KEYS[2], id) then
  redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[4]), id)
end
redis.call('ZADD', KEYS[3], now + ARGV[4], id)
local free = limit - redis.call('ZCARD', KEYS[1])
if redis.call('ZRANK', KEYS[2], id) < free then
  redis.call('ZREM', KEYS[2], id)
  redis.call('ZREM', KEYS[3], id)
  redis.call('ZADD', KEYS[1], now + ARGV[3], id)
  return 1
end
return 0`;

const RENEW = `${NOW}
local till = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not till or tonumber(till) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + ARGV[2], ARGV[1])
return 1`;

const LEAVE = `
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
return 1`;

export class SlotTimeout extends Error {}

export class ExportSlots {
  private readonly keys: string[];

  constructor(
    private readonly client: RedisClientType,
    private readonly name: string,
    private readonly limit: number,
    private readonly leaseMs = 15_000,
    private readonly waiterMs = 5_000,
  ) {
    this.keys = ['holders', 'queue', 'alive', 'ticket'].map((k) => `slots:{${name}}:${k}`);
  }

  async run<T>(waitMs: number, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const id = randomUUID();
    const control = new AbortController();
    let renewing: Promise<void> | undefined;
    const done = new AbortController();
    try {
      const leaseFrom = await this.enter(id, waitMs);
      renewing = this.keepRenewing(id, leaseFrom, control, done.signal);
      const result = await fn(control.signal);
      control.signal.throwIfAborted();
      return result;
    } finally {
      done.abort();
      await renewing;
      // Also for a waiter that gives up: frees its place in the queue.
      await this.call(LEAVE, [id]).catch((err) => console.warn(`slots ${this.name}:`, err.message));
    }
  }

  private async enter(id: string, waitMs: number): Promise<number> {
    const giveUp = Date.now() + waitMs;
    for (;;) {
      const sentAt = Date.now();
      const got = await this.call(ENTER, [id, String(this.limit), String(this.leaseMs), String(this.waiterMs)]);
      if (got === 1) return sentAt;
      if (Date.now() > giveUp) throw new SlotTimeout(this.name);
      await sleep(300 + Math.random() * 200);
    }
  }

  private async keepRenewing(id: string, from: number, control: AbortController, done: AbortSignal) {
    let guard = this.guard(from, control);
    while (!done.aborted && !control.signal.aborted) {
      await sleep(this.leaseMs / 3, undefined, { signal: done }).catch(() => undefined);
      if (done.aborted) break;
      const sentAt = Date.now();
      const renewal = this.call(RENEW, [id, String(this.leaseMs)]).catch(() => undefined);
      const answer = await Promise.race([renewal, sleep(this.leaseMs / 6)]);
      if (answer === 0) control.abort(new Error(`slot of ${this.name} lost`));
      if (answer === 1) {
        clearTimeout(guard);
        guard = this.guard(sentAt, control);
      }
    }
    clearTimeout(guard);
  }

  /** Fires a second before the lease ends, unless it was renewed. */
  private guard(from: number, control: AbortController) {
    const left = from + this.leaseMs - 1_000 - Date.now();
    return setTimeout(() => control.abort(new Error(`slot of ${this.name} ran out`)), Math.max(0, left));
  }

  private async call(script: string, args: string[]): Promise<number> {
    return (await this.client.eval(script, { keys: this.keys, arguments: args })) as number;
  }
}
