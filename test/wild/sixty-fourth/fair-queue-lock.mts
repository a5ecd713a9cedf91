import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/**
 * First come, first served lock.
 *
 * KEYS[1] lock      string, token of the holder, PX
 * KEYS[2] queue     zset, waiter -> ticket number
 * KEYS[3] alive     zset, waiter -> time until which it counts as waiting
 * KEYS[4] tickets   counter
 * ARGV    token, lease ms, patience ms
 */
const TRY = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local me, lease, patience = ARGV[1], ARGV[2], tonumber(ARGV[3])

for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now)) do
  redis.call('ZREM', KEYS[2], gone)
  redis.call('ZREM', KEYS[3], gone)
end

if not redis.call('ZSCORE', KEYS[2], me) then
  redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[4]), me)
end
redis.call('ZADD', KEYS[3], now + patience, me)
for i = 2, 4 do redis.call('PEXPIRE', KEYS[i], 3600000) end

if redis.call('ZRANGE', KEYS[2], 0, 0)[1] == me
   and redis.call('SET', KEYS[1], me, 'NX', 'PX', lease) then
  redis.call('ZREM', KEYS[2], me)
  redis.call('ZREM', KEYS[3], me)
  return 1
end
return 0`;

const LEAVE = `
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const sha = new Map<string, string>();

async function run(redis: Redis, lua: string, keys: string[], ...args: (string | number)[]) {
  if (!sha.has(lua)) sha.set(lua, createHash('sha1').update(lua).digest('hex'));
  try {
    return await redis.evalsha(sha.get(lua)!, keys.length, ...keys, ...args);
  } catch (err) {
    if (!(err instanceof Error) || !err.message.startsWith('NOSCRIPT')) throw err;
    return redis.eval(lua, keys.length, ...keys, ...args);
  }
}

export class FairLock implements AsyncDisposable {
  readonly #abort = new AbortController();
  #timer?: NodeJS.Timeout;

  private constructor(
    private readonly redis: Redis,
    private readonly keys: string[],
    private readonly token: string,
    private readonly lease: number,
    sent: number,
  ) {
    this.#arm(sent);
  }

  static async acquire(
    redis: Redis,
    name: string,
    { lease = 30_000, wait = 60_000, patience = 3_000 } = {},
  ): Promise<FairLock> {
    const keys = ['lock', 'queue', 'alive', 'tickets'].map((part) => `fair:{${name}}:${part}`);
    const token = randomUUID();
    const giveUp = performance.now() + wait;
    try {
      for (;;) {
        const sent = performance.now();
        if ((await run(redis, TRY, keys, token, lease, patience)) === 1) {
          const lock = new FairLock(redis, keys, token, lease, sent);
          lock.signal.throwIfAborted();
          return lock;
        }
        if (performance.now() > giveUp) throw new Error(`${name}: gave up after ${wait}ms`);
        await sleep(100 + Math.random() * 100);
      }
    } catch (err) {
      await run(redis, LEAVE, keys, token).catch(() => {});
      throw err;
    }
  }

  /** Aborted when the lease ends before the lock is disposed of. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** A full lease from now on, or an exception. */
  async extend(): Promise<void> {
    this.signal.throwIfAborted();
    const sent = performance.now();
    const ok = await run(this.redis, EXTEND, this.keys, this.token, this.lease);
    if (ok === 1) this.#arm(sent);
    else this.#abort.abort(new Error('lock lost'));
    this.signal.throwIfAborted();
  }

  #arm(sent: number): void {
    clearTimeout(this.#timer);
    const left = sent + this.lease * 0.9 - performance.now();
    const expire = () => this.#abort.abort(new Error('lease ran out'));
    if (left <= 0) expire();
    else this.#timer = setTimeout(expire, left);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer);
    await run(this.redis, LEAVE, this.keys, this.token).catch(() => {}); // the lease ends anyway
  }
}

/** Invoice numbers without gaps, in the order in which the requests came. */
export async function issueInvoices(redis: Redis, api: string, drafts: string[]): Promise<void> {
  await using lock = await FairLock.acquire(redis, 'invoice-numbers');
  for (const draft of drafts) {
    await lock.extend();
    const signal = AbortSignal.any([lock.signal, AbortSignal.timeout(10_000)]);
    const res = await fetch(`${api}/drafts/${draft}/issue`, { method: 'POST', signal });
    if (!res.ok) throw new Error(`draft ${draft}: ${res.status}`);
  }
}
