import { hostname } from "node:os";
import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import type { Redis } from "ioredis";

export abstract class BaseLock {
  readonly key: string;
  readonly ttlMs: number;

  constructor(key: string, ttlMs: number) {
    this.key = key;
    this.ttlMs = ttlMs;
  }

  protected abstract take(hold: string): Promise<boolean>;
  protected abstract drop(hold: string): Promise<void>;

  /** The callback has to give up when the signal fires; we wait for it before letting go. */
  async run<T>(fn: (signal: AbortSignal) => Promise<T>, attempts = 40): Promise<T> {
    const hold = randomUUID();
    let asked = performance.now();
    for (let i = 1; !(await this.take(hold)); i++) {
      if (i >= attempts) throw new Error(`${this.key} is busy`);
      await pause(50 + Math.random() * 100);
      asked = performance.now();
    }
    try {
      const left = Math.floor(asked + this.ttlMs * 0.8 - performance.now());
      if (left <= 0) throw new Error(`${this.key}: redis was too slow`);
      return await fn(AbortSignal.timeout(left));
    } finally {
      await this.drop(hold).catch(() => undefined);
    }
  }
}

// host + pid for the people reading redis-cli, the uuid because pods reuse both
const OWNER = `${hostname()}:${process.pid}:${randomUUID()}`;

// Every hold is a field of its own, so a resent command does not count twice.
const TAKE = `
local owner = redis.call('hget', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then return 0 end
redis.call('hset', KEYS[1], 'owner', ARGV[1], ARGV[2], '1')
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('pexpire', KEYS[1], ARGV[3])
end
return 1`;

const DROP = `
if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('hdel', KEYS[1], ARGV[2])
if redis.call('hlen', KEYS[1]) == 1 then redis.call('del', KEYS[1]) end
return 1`;

/** Service methods call one another, therefore the owner may enter again. */
export class RedisLock extends BaseLock {
  #redis: Redis;

  constructor(redis: Redis, name: string, ttlMs = 20_000) {
    super(`lock:${name}`, ttlMs);
    this.#redis = redis;
  }

  protected async take(hold: string): Promise<boolean> {
    return (await this.#redis.eval(TAKE, 1, this.key, OWNER, hold, this.ttlMs)) === 1;
  }

  protected async drop(hold: string): Promise<void> {
    await this.#redis.eval(DROP, 1, this.key, OWNER, hold);
  }
}

export interface StockTable {
  read(sku: string, signal: AbortSignal): Promise<number>;
  write(sku: string, qty: number, signal: AbortSignal): Promise<void>;
}

export class Inventory {
  #redis: Redis;
  #table: StockTable;

  constructor(redis: Redis, table: StockTable) {
    this.#redis = redis;
    this.#table = table;
  }

  change(sku: string, by: number, outer?: AbortSignal): Promise<number> {
    return new RedisLock(this.#redis, `stock:${sku}`).run(async (own) => {
      const signal = outer ? AbortSignal.any([own, outer]) : own;
      const qty = (await this.#table.read(sku, signal)) + by;
      if (qty < 0) throw new Error(`${sku}: not enough stock`);
      signal.throwIfAborted();
      await this.#table.write(sku, qty, signal);
      return qty;
    });
  }

  /** Sets the counted quantity and books the difference, as one step. */
  recount(sku: string, counted: number): Promise<number> {
    return new RedisLock(this.#redis, `stock:${sku}`).run(async (signal) => {
      const before = await this.#table.read(sku, signal);
      return this.change(sku, counted - before, signal);
    });
  }
}
