/**
 * lock-many - lock a set of things at once, all or none.
 *
 *   await using lock = await lockMany(redis, ['account:7', 'account:12']);
 *   const a = await load(7), b = await load(12);
 *   lock.assertHeld();
 *   await transfer(a, b, { signal: lock.signal });
 *
 * All keys are taken by one script, so there is no order to think about and no deadlock.
 * (For Redis Cluster all keys carry the same hash tag and live on one node.)
 *
 * The locks are renewed until disposed. If that fails, `signal` aborts ahead of the expiry
 * and assertHeld() throws. Like any lock with a timeout it can't hold back a write that has
 * already left your process.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster, Redis } from 'ioredis';

const TAKE_ALL = `
for _, key in ipairs(KEYS) do
  local owner = redis.call('GET', key)
  if owner and owner ~= ARGV[1] then return key end
end
for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1], 'PX', ARGV[2]) end
return 1`;

const KEEP_ALL = `
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) ~= ARGV[1] then return 0 end
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[2]) end
return 1`;

const FREE_ALL = `
local n = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then n = n + redis.call('DEL', key) end
end
return n`;

export class Contended extends Error {
  constructor(readonly key: string) {
    super(`${key} is locked`);
  }
}

export class Lost extends Error {}

export interface LockManyOptions {
  /** milliseconds, default 10 s */
  ttl?: number;
  /** how often to try, default 20 */
  tries?: number;
}

export async function lockMany(
  redis: Redis | Cluster,
  names: string[],
  { ttl = 10_000, tries = 20 }: LockManyOptions = {},
): Promise<ManyLock> {
  if (names.length === 0) throw new TypeError('nothing to lock');
  const keys = [...new Set(names)].map((name) => `{lock-many}:${name}`);
  const id = randomUUID();

  let inTheWay = '';
  try {
    for (let i = 0; i < tries; i++) {
      if (i > 0) await sleep(Math.min(25 * 2 ** i, 400) * (0.5 + Math.random()));
      const sentAt = performance.now();
      const reply = await redis.eval(TAKE_ALL, keys.length, ...keys, id, ttl);
      if (reply !== 1) inTheWay = String(reply);
      else if (performance.now() - sentAt < ttl / 2) return new ManyLock(redis, keys, id, ttl, sentAt);
    }
    throw new Contended(inTheWay);
  } catch (err) {
    redis.eval(FREE_ALL, keys.length, ...keys, id).catch(() => undefined);
    throw err;
  }
}

export class ManyLock implements AsyncDisposable {
  #lost = new AbortController();
  #closed = new AbortController();
  #until = 0;
  #alarm: NodeJS.Timeout | undefined;

  constructor(
    private readonly redis: Redis | Cluster,
    private readonly keys: string[],
    private readonly id: string,
    private readonly ttl: number,
    sentAt: number,
  ) {
    this.#reset(sentAt);
    void this.#keep();
  }

  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  assertHeld(): void {
    if (this.#closed.signal.aborted) throw new Lost('already released');
    if (performance.now() >= this.#until) this.#lose('time is up');
    this.#lost.signal.throwIfAborted();
  }

  #reset(sentAt: number) {
    this.#until = sentAt + this.ttl * 0.9;
    clearTimeout(this.#alarm);
    this.#alarm = setTimeout(() => this.#lose('time is up'), Math.max(0, this.#until - performance.now()));
  }

  #lose(why: string) {
    clearTimeout(this.#alarm);
    this.#lost.abort(new Lost(why));
  }

  async #keep() {
    const end = AbortSignal.any([this.#lost.signal, this.#closed.signal]);
    let pause = this.ttl / 3;
    for (;;) {
      await sleep(pause, undefined, { signal: end }).catch(() => undefined);
      if (end.aborted) return;
      const sentAt = performance.now();
      const kept = await this.redis
        .eval(KEEP_ALL, this.keys.length, ...this.keys, this.id, this.ttl)
        .catch(() => 'error');
      if (end.aborted) return;
      if (kept === 1) this.#reset(sentAt);
      if (kept === 0) return this.#lose('a key is not ours any more');
      pause = kept === 1 ? this.ttl / 3 : this.ttl / 20;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
    clearTimeout(this.#alarm);
    await this.redis.eval(FREE_ALL, this.keys.length, ...this.keys, this.id).catch(() => undefined);
  }
}
